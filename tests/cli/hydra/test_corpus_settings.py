"""From words to a Config where the task is a corpus: its protocol, its models, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.errors import NoData, UserError
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
    byte_level = task in ("lra_text", "lra_retrieval")  # of MEGA the paper copies numbers there
    others = ("s4d_stack",) if byte_level else ("s4d_stack", "mega")
    assert config.optim.name == ("adamw" if model in others else "ranger")
    usual = 200 if task == "logic" else 128
    if model == "mega" and not byte_level:
        usual = 80
    if model == "s4d_stack" and byte_level:
        usual = 256
    assert config.model.width == usual


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
    for task in ("lra_text", "lra_retrieval"):
        with pytest.raises(NoData, match=f"{task}: no data at hand(.|\n)*data fetch {task}"):
            validated(composed([f"task={task}", "model=bbt_grc"]))


def test_what_the_paper_has_on_documents() -> None:
    """Its released configurations IMDB_lra and AAN_lra, by model."""

    def of(task: str, model: str) -> tuple[Any, ...]:
        config: Any = composed([f"task={task}", f"model={model}"])
        protocol, encoder, framework = config.protocol, config.model.encoder, config.model.framework
        return (
            *(protocol.batch_size, protocol.micro_batch, protocol.epochs, protocol.patience),
            *(protocol.select_by, protocol.bucket, config.optim.lr, config.optim.clip),
            *(framework.in_dropout, framework.out_dropout, encoder.dropout),
        )

    text = ("accuracy", 5, 1e-3, 1.0, 0.4, 0.4, 0.2)
    assert of("lra_text", "bbt_grc") == (128, None, 40, 10, *text)
    assert of("lra_text", "rir_grc") == of("lra_text", "rir_ebt_grc") == (128, 32, 40, 10, *text)
    linear = ("accuracy", 1, 1e-2, None, 0.0, 0.0, 0.0)
    assert of("lra_text", "s4d_stack") == (16, None, 32, 20, *linear)
    pairs = ("accuracy", 10, 1e-3, 5.0, 0.4, 0.1, 0.1)
    for model in ("bbt_grc", "rir_grc", "rir_ebt_grc"):
        assert of("lra_retrieval", model) == (128, None, 20, 4, *pairs)
    assert of("lra_retrieval", "s4d_stack") == (64, None, 20, 20, *linear)
    for task, beam, chunk in (("lra_text", 7, 30), ("lra_retrieval", 5, 5)):
        encoder: Any = composed([f"task={task}", "model=rir_ebt_grc"]).model.encoder  # type: ignore[attr-defined]
        assert (encoder.beam, encoder.chunk, encoder.inference) == (beam, chunk, "rir")


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
