"""Weights of a task's automaton: right without training, and refused where they do not fit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from lrbench.certificates.proof import find_proof
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.kernels.choice import SWITCH
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.runs.train.validate import validated
from lrbench.tasks.base import IGNORE

EXACT = ["model.mixer.init=exact", "model.backbone.name=bare", "model.layers=1", "seed=0"]
NEEDED = {"sum": (26, 5), "parity": (5, 2), "even_pair": (26, 11), "mod_arith": (141, 50)}
SIZES = {  # for a task: of as few units as can be, and of more
    "rnn": lambda units, states: ["model.width=150", f"model.mixer.units={units}"],
    "wide rnn": lambda units, states: ["model.width=150"],
    "one-hot rnn": lambda units, states: [
        "model.mixer.units=150",
        "model.backbone.embed=one_hot",
    ],
    "slstm": lambda units, states: [
        f"model.width={2 * units}",
        "model.mixer.heads=2",
    ],
    "one-headed slstm": lambda units, states: [
        "model.width=150",
        "model.mixer.heads=1",
    ],
    "blockdiag": lambda units, states: [
        f"model.width={2 * states + 6}",
        f"model.mixer.block_size={states + 3}",
    ],
    "linear blockdiag": lambda units, states: [
        f"model.width={states + 8}",
        f"model.mixer.block_size={states}",
        "model.mixer.blocks=3",
        "model.mixer.g=linear",
        "model.mixer.values=linear",
        "model.mixer.constraint=column_unit",
    ],
}
GROUPS = {  # of the delta rule: how many reflections a symbol, and a head that holds the states
    "sum": (4, 5),
    "parity": (1, 2),
    "group task.group=S3": (4, 6),
}


def arguments(kind: str, task: str) -> list[str]:
    return [f"task={task}", f"model={kind.split()[-1]}", *EXACT, *SIZES[kind](*NEEDED[task])]


@pytest.mark.parametrize("task", NEEDED)
@pytest.mark.parametrize("kind", SIZES)
def test_every_string_is_answered_without_training(
    kind: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the oracle of the task, which knows no automaton, at every position."""
    if "blockdiag" in kind and (kind, task) != ("blockdiag", "sum"):  # blocks of 8, as by default
        monkeypatch.setenv(SWITCH, "0")  # loops for each other size would be compiled for this
    trial = LengthTrial(composed(arguments(kind, task)), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 16, trial.task.nearest_length(200), "cpu")
    assert batch.targets.tolist() == [trial.task.oracle(row) for row in batch.tokens.tolist()]
    with torch.no_grad():
        logits, _ = trial.model(batch.tokens)
    asked = batch.targets != IGNORE
    assert torch.equal(logits.argmax(-1)[asked], batch.targets[asked])


@pytest.mark.parametrize("task", GROUPS)
@pytest.mark.parametrize("to_spare", [0, 1])
def test_a_group_is_answered_by_reflections(task: str, to_spare: int) -> None:
    trial = LengthTrial(composed(reflecting(task, to_spare)), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 16, 200, "cpu")
    assert batch.targets.tolist() == [trial.task.oracle(row) for row in batch.tokens.tolist()]
    with torch.no_grad():
        logits, _ = trial.model(batch.tokens)
    assert torch.equal(logits.argmax(-1), batch.targets)


def reflecting(task: str, to_spare: int = 0) -> list[str]:
    count, size = (number + to_spare for number in GROUPS[task])
    return [
        *f"task={task}".split(), "model=deltaproduct", *EXACT, "model.width=16",
        f"model.mixer.heads={1 + to_spare}", f"model.mixer.householders={count}",
        f"model.mixer.key_size={size}", f"model.mixer.value_size={size}",
        "model.mixer.conv_size=0", "model.mixer.qk_activation=identity",
        "model.mixer.learn_x0=true",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("model.mixer.householders=3", "householders of at least 4 here .*, not 3"),
        ("model.mixer.key_size=4", "key_size of at least 5 here"),
        ("model.mixer.conv_size=4", r"needs model\.mixer\.conv_size=0"),
        ("model.mixer.range=positive", r"needs model\.mixer\.range=signed"),
        ("model.mixer.learn_x0=false", r"learn_x0=true"),
        ("task=even_pair", "each of whose symbols permutes"),
        ("task=mod_arith", "each of whose symbols permutes"),
    ],
)
def test_what_reflections_cannot_be_is_refused(changed: str, message: str) -> None:
    key = changed.partition("=")[0]
    kept = [word for word in reflecting("sum") if word.partition("=")[0] != key]
    with pytest.raises(UserError, match=message):
        validated(composed([*kept, changed]))


def test_more_classes_than_a_model_is_wide_are_refused_with_what_is_needed() -> None:
    """S5 has 120 classes: torch spoke of the sizes of tensors."""
    kept = [word for word in reflecting("sum") if word != "task=sum"]
    with pytest.raises(UserError, match="key_size of at least 120 here"):
        validated(composed([*kept, "task=group", "task.group=S5", "task.letters=swaps"]))


@pytest.mark.parametrize("task", ["sum", "parity", "even_pair"])
def test_a_tanh_network_with_units_to_spare_is_proved_right(task: str) -> None:
    config = composed(arguments("wide rnn", task))
    trial = LengthTrial(config, 0)
    proof = find_proof(
        trial.model, dataclasses.asdict(config.model), trial.task.machine(), most_nodes=200
    )
    assert proof.boxes is not None


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("rnn", "model.mixer.units=25", r"model\.mixer\.units of at least 26 here .*, not 25"),
        ("rnn", "model.width=4", r"model\.width of at least 5 here \(the symbols\), not 4"),
        ("rnn", "model.mixer.nonlinearity=relu", "nonlinearity=tanh"),
        ("rnn", "model.layers=2", "one layer"),
        ("rnn", "model.backbone.norm=false", "with norm=true"),
        ("slstm", "model.mixer.heads=4", r"heads of at least 26 here .*, not 13"),
        ("slstm", "model.mixer.conv_size=4", r"model\.mixer\.conv_size=0"),
        ("blockdiag", "model.mixer.block_size=4", r"block_size of at least 5 here \(the states"),
        ("blockdiag", "model.mixer.hidden=3", r"model\.mixer\.hidden of at least 5"),
        ("blockdiag", "model.mixer.constraint=max_column_centred", "constraint=column_clip"),
        ("blockdiag", "model.backbone.name=lrnn_release", r"model\.backbone\.name=bare"),
        ("rnn", "task=mackey_glass", "a finite automaton"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_needed(
    kind: str, changed: str, message: str
) -> None:
    key = changed.partition("=")[0]
    kept = [argument for argument in arguments(kind, "sum") if argument.partition("=")[0] != key]
    with pytest.raises(UserError, match=message):
        validated(composed([*kept, changed]))
