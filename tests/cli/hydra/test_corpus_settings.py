"""From words to a Config where the task is a corpus: its protocol, its models, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.registry import ENCODERS, TASKS
from lrbench.runs.folder.cell import Cell
from lrbench.runs.train.validate import validated
from lrbench.schema import config_from
from lrbench.tasks.corpus.task import CorpusTask
from tests import made_up_corpora


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the corpora find their strings."""
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))


CORPORA = [name for name in sorted(TASKS) if issubclass(TASKS.get(name).cls, CorpusTask)]


@pytest.mark.parametrize("model", sorted(ENCODERS))
@pytest.mark.parametrize("task", CORPORA)
def test_every_encoder_and_corpus_go_together(task: str, model: str) -> None:
    config = composed([f"task={task}", f"model={model}"])
    validated(config)
    assert (config.task.name, config.model.name) == (task, model)
    assert config.protocol.name == "rir2023"
    assert config.optim.name == ("adamw" if model in ("s4d_stack", "mega") else "ranger")
    usual = 200 if task == "logic" else 128
    assert config.model.width == (80 if model == "mega" else usual)


def test_what_does_not_go_together_is_reported() -> None:
    with pytest.raises(UserError, match=r"model=pooled model\.encoder\.mixer=lstm"):
        validated(composed(["task=listops", "model=lstm"]))
    with pytest.raises(UserError, match="task sum asks at each position"):
        validated(composed(["task=sum", "model=bbt_grc"]))
    with pytest.raises(UserError, match="write protocol=rir2023"):
        validated(composed(["task=listops", "model=bbt_grc", "protocol=fan2024"]))
    with pytest.raises(UserError, match="split 'near' unknown"):
        validated(composed(["task=listops", "model=bbt_grc", "protocol.test_splits=[near]"]))


def test_a_head_that_is_not_there_is_reported() -> None:
    def check(task: str, *arguments: str) -> None:
        validated(composed([f"task={task}", "model=bbt_grc", *arguments]))

    with pytest.raises(UserError, match="head=linear is for single strings; task logic has pairs"):
        check("logic", "model.framework.head=linear")
    with pytest.raises(UserError, match="hidden=7 is for pairs; task listops has single strings"):
        check("listops", "model.framework.hidden=7")
    check("logic", "model.framework.hidden=7", "model.framework.head=mlp")
    check("listops", "model.framework.hidden=200", "model.framework.head=linear")


def test_a_corpus_that_is_not_there_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="lrbench data make listops"):
        validated(composed(["task=listops", "model=bbt_grc"]))
    with pytest.raises(UserError, match="lrbench data fetch logic"):
        validated(composed(["task=logic", "model=bbt_grc"]))


def test_there_and_back() -> None:
    cell = Cell.of(composed(["task=logic", "model=bbt_grc", "model.encoder.dropout=0.2"]))
    again = Cell.of(config_from(cell.settings))
    assert (again.settings, again.fingerprint) == (cell.settings, cell.fingerprint)
    assert again.config.model.encoder.dropout == 0.2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("protocol.train_length=40", "train_length"),
        ("protocol.epochs=0", "protocol.epochs must be at least 1"),
        ("protocol.select_by=look", "protocol.select_by must be one of"),
        ("protocol.test_splits=[dev,dev]", "names one twice"),
        ("model.framework.head=none", "model.framework.head must be one of"),
        ("model.framework.in_dropout=1.0", "model.framework.in_dropout must be in"),
        ("model.layers=2", "model.layers"),
    ],
)
def test_what_is_wrong_is_reported(argument: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        composed(["task=listops", "model=bbt_grc", argument])
