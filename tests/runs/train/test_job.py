"""A cell from start to end, and how its failures are told."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.runs.folder import checkpoints, files
from lrbench.runs.folder.cell import Cell
from lrbench.runs.train import watch
from lrbench.runs.train.job import run_cell
from lrbench.runs.train.result import report_outcomes
from lrbench.training.trial import Trial

Tiny = Callable[..., Config]


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def update(trial: Trial) -> Any:
        raise error

    monkeypatch.setattr(Trial, "update", update)


@pytest.mark.slow
def test_what_is_finished_is_skipped(tiny: Tiny) -> None:
    first = run_cell(tiny(trials=2))
    assert [(o.seed, o.status) for o in first] == [(0, "finished"), (1, "finished")]
    second = run_cell(tiny(trials=3))
    assert [(o.seed, o.status) for o in second] == [(0, "skipped"), (1, "skipped"), (2, "finished")]
    assert second[0].result == files.read_json(second[0].folder / "result.json")
    assert not list(Cell.of(tiny()).folder.rglob("lease.json"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_folder_that_refuses_writing_is_the_users_to_mend(
    code: int, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(cell: Cell) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Cell, "open", refuse)
    with pytest.raises(UserError, match=os.strerror(code)) as caught:
        run_cell(tiny())
    assert len(str(caught.value).splitlines()) <= 6


def test_any_other_error_of_the_system_goes_on(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cell: Cell) -> None:
        raise OSError(errno.EPIPE, "broken")

    monkeypatch.setattr(Cell, "open", refuse)
    with pytest.raises(OSError, match="broken"):
        run_cell(tiny())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("mend it"), "mend it"),
        (MemoryError(), "out of memory"),
        (
            RuntimeError("DefaultCPUAllocator: you tried to allocate 9 bytes"),
            "out of memory: needs",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_a_known_cause_is_reported_without_a_traceback(
    error: Exception,
    message: str,
    tiny: Tiny,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(error, monkeypatch)
    outcomes = run_cell(tiny())
    assert report_outcomes(outcomes) == 1
    err = capsys.readouterr().err
    assert err.startswith("lrbench: ")
    assert message in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 6
    assert (outcomes[0].folder / "failure.json").exists()


def test_a_folder_where_a_file_belongs(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    path = Cell.of(tiny()).folder / "s0" / "metrics.jsonl"
    path.mkdir(parents=True)
    assert report_outcomes(run_cell(tiny())) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"lrbench: {path}: is a directory\n")
    assert f"a file belongs there; move it out of {path.parent} and run the same" in err
    assert "Traceback" not in err and len(err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("could not be allocated to a chapter"), "RuntimeError: could not be alloc"),
        (SystemExit(0), "SystemExit: 0"),  # of a plug-in
    ],
)
def test_a_bug_keeps_its_traceback(
    error: BaseException,
    told: str,
    tiny: Tiny,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(error, monkeypatch)
    assert report_outcomes(run_cell(tiny())) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert f"seed 0 failed at update 0: {told}" in err


@pytest.mark.slow
def test_a_trial_that_cannot_be_examined_does_not_spoil_the_others(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Fan2024Procedure.levels

    def fail_for_one(self: Fan2024Procedure, trial: Trial, check: Callable[[], None]) -> Any:
        if trial.seed == 0:
            raise ArithmeticError("boom")
        return real(self, trial, check)

    monkeypatch.setattr(Fan2024Procedure, "levels", fail_for_one)
    assert [o.status for o in run_cell(tiny(trials=2))] == ["failed", "finished"]
    monkeypatch.setattr(Fan2024Procedure, "levels", real)
    assert [o.status for o in run_cell(tiny(trials=2))] == ["finished", "skipped"]


@pytest.mark.slow
def test_every_trial_is_kept_when_time_is_up(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only that whose turn it is; here time is always up."""
    monkeypatch.setattr(watch, "CHECKPOINT_SECONDS", -1.0)
    for outcome in run_cell(tiny(trials=2)):
        steps = checkpoints.steps(outcome.folder / "checkpoints")
        assert [path.name for path in steps] == ["step-00000005.pt", "step-00000006.pt"]
