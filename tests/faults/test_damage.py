"""Files cut short, emptied, flipped, forged or edited: passed over, set aside or refused."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.runs.folder import checkpoints, files

from .bits import content, differences
from .conftest import Laboratory, Reference, run_folder

NEWEST, OLDER, LOOK = "step-00000033.pt", "step-00000030.pt", "last.pt"


@pytest.fixture(scope="session")
def stopped_at_33(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    stop = {"step": 33, "name": "send", "numbers": [int(signal.SIGTERM)]}
    assert lab.train(folder, sabotage=[["act_at", stop]]).wait() == 130
    return folder


@pytest.fixture
def stopped(stopped_at_33: Path, tmp_path: Path) -> Path:
    """A run stopped at update 33, with checkpoints of updates 33 and 30 and looks at 10, 20, 30."""
    shutil.copytree(stopped_at_33, tmp_path / "runs")
    return run_folder(tmp_path / "runs")


@pytest.fixture
def finished(reference: Reference, tmp_path: Path) -> Path:
    """A finished run."""
    top = reference.folder.parents[4]
    shutil.copytree(top, tmp_path / "runs")
    return run_folder(tmp_path / "runs")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(data: bytes) -> bytes:
    return b""


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def resume(lab: Laboratory, folder: Path, *arguments: str) -> str:
    """Run to the end; return what run.log gained. What was passed over is told on the screen."""
    before = len((folder / "run.log").read_text()) if (folder / "run.log").exists() else 0
    program = lab.train(folder.parents[4], *arguments)
    assert program.wait() == 0, program.err
    log = (folder / "run.log").read_text()[before:]
    for name in re.findall(r"checkpoint (\S+) passed over", log):
        assert f"{name} is passed over: " in program.err
    return log


@pytest.mark.parametrize(
    ("damage", "names", "used"),
    [
        (cut, [NEWEST], OLDER),
        (empty, [NEWEST], OLDER),
        (flip, [NEWEST], OLDER),
        (flip, [NEWEST, OLDER], LOOK),
        (cut, [NEWEST, OLDER, LOOK], None),
        (cut, [NEWEST, OLDER, LOOK, "best.pt", "id.pt", "band.pt"], None),
        (flip, ["best.pt"], None),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_the_bits_are_the_same(
    damage: Callable[[bytes], bytes],
    names: list[str],
    used: str | None,
    stopped: Path,
    lab: Laboratory,
    reference: Reference,
) -> None:
    for name in names:
        path = stopped / "checkpoints" / name
        path.write_bytes(damage(path.read_bytes()))

    log = resume(lab, stopped)

    assert f"checkpoint {NEWEST} passed over" in log
    assert ("went on from" in log) == (used is not None)
    assert used is None or f"went on from {used}" in log
    assert not differences(content(stopped), content(reference.folder))


def test_weights_a_rule_kept_that_are_gone_are_trained_again(
    stopped: Path, lab: Laboratory, reference: Reference
) -> None:
    (stopped / "checkpoints" / "best.pt").unlink()

    assert "no longer kept: best" in resume(lab, stopped)
    assert not differences(content(stopped), content(reference.folder))


def test_new_checkpoints_are_kept_though_damaged_ones_have_higher_numbers(
    stopped: Path, lab: Laboratory
) -> None:
    for name in (NEWEST, OLDER, LOOK):
        (stopped / "checkpoints" / name).write_bytes(b"")
    stop = {"step": 15, "name": "send", "numbers": [int(signal.SIGTERM)]}
    assert lab.train(stopped.parents[4], sabotage=[["act_at", stop]]).wait() == 130

    assert "went on from step-00000015.pt" in resume(lab, stopped)


def test_the_checkpoint_of_another_run_is_not_used(
    stopped: Path, lab: Laboratory, reference: Reference
) -> None:
    foreign = checkpoints.load(stopped / "checkpoints" / NEWEST)
    checkpoints.save(stopped / "checkpoints" / "step-00000059.pt", {**foreign, "seed": 7})
    checkpoints.save(stopped / "checkpoints" / "step-00000058.pt", {"step": 58})

    log = resume(lab, stopped)

    assert "step-00000059.pt passed over" in log
    assert "step-00000058.pt passed over" in log
    assert f"went on from {NEWEST}" in log
    assert not differences(content(stopped), content(reference.folder))


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(cut, id="cut"),
        pytest.param(empty, id="empty"),
        pytest.param(lambda data: b"[]", id="list"),
        pytest.param(lambda data: b"null", id="null"),
        pytest.param(lambda data: data.replace(b'"status"', b'"stat"'), id="incomplete"),
        pytest.param(lambda data: data.replace(b'"seed": 2', b'"seed": 3'), id="seed"),
        pytest.param(
            lambda data: data.replace(b'"fingerprint": "', b'"fingerprint": "0'), id="fingerprint"
        ),
    ],
)
def test_a_damaged_result_is_set_aside_and_made_again(
    damaged: Callable[[bytes], bytes], finished: Path, lab: Laboratory, reference: Reference
) -> None:
    path = finished / "result.json"
    bad = damaged(path.read_bytes())
    path.write_bytes(bad)

    log = resume(lab, finished)

    (kept,) = finished.glob("result.json.unreadable-*")
    assert kept.read_bytes() == bad
    assert kept.name in log
    assert not differences(content(finished), content(reference.folder))


def test_settings_edited_by_hand_are_refused_by_name(finished: Path, lab: Laboratory) -> None:
    path = finished.parent / "config.json"
    edited = path.read_text().replace('"lr": 0.1', '"lr": 0.2')
    path.write_text(edited)

    program = lab.train(finished.parents[4])

    assert program.wait() == 1
    assert "optim.lr" in program.err
    assert len(program.err.splitlines()) <= 6
    assert path.read_text() == edited


def test_half_a_config_is_written_again(finished: Path, lab: Laboratory) -> None:
    path = finished.parent / "config.json"
    whole = files.read_json(path)
    path.write_bytes(cut(path.read_bytes()))

    assert lab.train(finished.parents[4]).wait() == 0
    written = files.read_json(path)
    assert {**written, "output_dir": ""} == {**whole, "output_dir": ""}


class Payload:
    """A pickle that leaves a trace where it is executed."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def poison(path: Path, trace: Path, bare: bool) -> None:
    if bare:
        path.write_bytes(pickle.dumps(Payload(trace)))
    else:
        torch.save({"step": 99, "model": Payload(trace)}, path)


@pytest.mark.parametrize("bare", [True, False], ids=["pickle", "torch"])
def test_train_executes_nothing_it_finds(
    bare: bool, stopped: Path, lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    trace = tmp_path / "executed"
    for name in (NEWEST, "step-00000099.pt", "last.pt"):
        poison(stopped / "checkpoints" / name, trace, bare)

    assert f"went on from {OLDER}" in resume(lab, stopped)
    assert not trace.exists()
    assert not differences(content(stopped), content(reference.folder))


@pytest.mark.parametrize("bare", [True, False], ids=["pickle", "torch"])
def test_evaluate_executes_nothing_it_finds(
    bare: bool, finished: Path, lab: Laboratory, tmp_path: Path
) -> None:
    trace = tmp_path / "executed"
    poison(finished / "checkpoints" / "best.pt", trace, bare)

    program = lab.start("evaluate", str(finished), "--lengths", "7", "--strings", "5")

    assert program.wait() == 1
    assert "best.pt" in program.err
    assert len(program.err.splitlines()) <= 6
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "content_of_it"),
    [("result.json", b'{"schema": 1}'), ("result.json", b"[]"), ("checkpoints/best.pt", None)],
)
def test_evaluate_refuses_what_is_no_finished_run(
    name: str, content_of_it: bytes | None, finished: Path, lab: Laboratory
) -> None:
    """Among them a sound checkpoint that holds no model."""
    if content_of_it is None:
        checkpoints.save(finished / name, {"step": 60})
    else:
        (finished / name).write_bytes(content_of_it)

    program = lab.start("evaluate", str(finished), "--lengths", "7", "--strings", "5")

    assert program.wait() == 1
    assert program.err.startswith(f"lrbench: {finished}")
    assert len(program.err.splitlines()) <= 6


def test_the_payload_would_leave_a_trace(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()
