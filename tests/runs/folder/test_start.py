"""Runs that begin with the weights of another: named by what these are, wherever they lie."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.runs.folder import checkpoints
from lrbench.runs.folder.cell import Cell
from lrbench.runs.train import job
from lrbench.runs.train.job import run_cell
from lrbench.schema import config_from
from lrbench.training.group.members import SideBySide
from lrbench.training.loop import train_group
from tests.training.test_loop import Diary

Make = Callable[..., Config]


@pytest.fixture
def first(tiny: Make) -> Path:
    """The folder of a finished run."""
    (outcome,) = run_cell(tiny())
    return outcome.folder


@pytest.fixture
def second(tiny: Make) -> Make:
    """A function that makes a configuration which starts from a folder."""

    def make(folder: Path | str, **changes: Any) -> Config:
        config = tiny(**changes)
        config.protocol.start_from = str(folder)
        return config

    return make


def last(folder: Path) -> dict[str, Any]:
    weights: dict[str, Any] = checkpoints.load(folder / "checkpoints" / "last.pt")["model"]
    return weights


@pytest.mark.slow
def test_it_goes_on_from_the_last_weights(first: Path, second: Make) -> None:
    config = second(first, seed=3, trials=2)
    outcomes = run_cell(config)
    assert [outcome.status for outcome in outcomes] == ["finished", "finished"]
    for outcome in outcomes:
        alone = LengthTrial(config, outcome.seed)
        alone.model.load_state_dict(last(first))
        train_group([alone], Diary(), SideBySide(1))
        mine = last(outcome.folder)
        assert all(torch.equal(mine[k], v) for k, v in alone.model.state_dict().items())
    assert str(first) in (outcomes[0].folder / "run.log").read_text()


@pytest.mark.slow
def test_weights_that_are_rounded_begin_rounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the other run are float32; each update here is of weights of bfloat16."""
    words = ["task=group", "task.group=Z3", "model=rnn", "model.width=8", "protocol=walks"]
    words += ["protocol.train_lengths=[3,8]", "protocol.max_steps=1", "protocol.batch_size=4"]
    words += ["protocol.validation_size=8", "protocol.look.strings=8", "protocol.test.strings=8"]
    words += ["protocol.certify=never", "trials=1", f"output_dir={tmp_path}"]
    (outcome,) = run_cell(composed(words))
    begun: list[bool] = []

    def watched(trials: list[LengthTrial], *others: Any) -> None:
        weights = [value for trial in trials for value in trial.model.parameters()]
        begun.append(all(torch.equal(one, one.bfloat16().float()) for one in weights))
        train_group(trials, *others)

    monkeypatch.setattr(job, "train_group", watched)
    start = f"protocol.start_from={outcome.folder}"
    run_cell(composed([*words, start]))
    run_cell(composed([*words, start, "protocol.precision=bfloat16"]))
    assert begun == [False, True]


@pytest.mark.slow
def test_what_is_written_names_the_weights(first: Path, second: Make, tiny: Make) -> None:
    """Moved, the same run begins the same cell; other weights begin another."""
    cell = Cell.of(second(first))
    assert cell.fingerprint != Cell.of(tiny()).fingerprint
    assert cell.settings["protocol"]["start_from"].startswith("sha256:")
    again = config_from(json.loads(json.dumps(cell.settings)))
    assert Cell.of(again).fingerprint == cell.fingerprint
    shutil.copytree(first.parent, first.parent.with_name("elsewhere"))
    moved = first.parent.with_name("elsewhere") / first.name
    assert Cell.of(second(moved)).fingerprint == cell.fingerprint
    (other,) = run_cell(tiny(seed=5))
    assert Cell.of(second(other.folder)).fingerprint != cell.fingerprint


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_from_its_own(first: Path, second: Make) -> None:
    (outcome,) = run_cell(second(first))
    weights = last(outcome.folder)
    (outcome.folder / "result.json").unlink()
    (again,) = run_cell(second(first))
    assert "went on from" in (again.folder / "run.log").read_text()
    assert all(torch.equal(value, weights[name]) for name, value in last(again.folder).items())


@pytest.mark.slow
def test_weights_that_were_trained_anew_while_it_waited_are_refused(
    first: Path, second: Make, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the cell promises those that were there when it began."""
    config = second(first)
    (other,) = run_cell(tiny(seed=5))
    claim = job._claim

    def waited(*parts: Any) -> Any:
        shutil.rmtree(first)
        shutil.copytree(other.folder, first)
        return claim(*parts)

    monkeypatch.setattr(job, "_claim", waited)
    (outcome,) = run_cell(config)
    assert outcome.status == "failed"
    assert "has other weights now than when this began" in outcome.message


@pytest.mark.slow
def test_other_models_are_refused_by_key(first: Path, second: Make) -> None:
    model = second(first).model
    for key, value in (("width", 4), ("layers", 2)):
        config = second(first)
        setattr(config.model, key, value)
        with pytest.raises(UserError, match=f"trained another model.*: model.{key}\n"):
            run_cell(config)
    task = {"name": "sum", "modulus": 3}
    with pytest.raises(UserError, match=r"weights of .* do not fit: .* is \(.*\) and must be \("):
        run_cell(second(first, task=task))
    assert model.width == 8


@pytest.mark.slow
def test_what_is_no_finished_run_is_refused(first: Path, second: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run with a 'last' checkpoint"):
        run_cell(second(tmp_path))
    (first / "result.json").unlink()
    with pytest.raises(UserError, match="is not finished"):
        run_cell(second(first))
    with pytest.raises(UserError, match="write the folder of the run that has them"):
        run_cell(second("sha256:" + "0" * 64))
