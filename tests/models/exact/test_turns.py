"""Weights of tasks that go round a cycle: right without training, refused where they do not fit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.models.exact.turns import turns_of
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.runs.train.validate import validated

EXACT = ["model.mixer.init=exact", "model.backbone.name=bare", "model.layers=1", "seed=0"]
SIZES = ["model.width=12", "model.mixer.learn_x0=true"]
SIGNED = ["model.mixer.conv_size=0", "model.mixer.range=signed"]
MODELS = {"mamba": SIGNED, "mamba2": SIGNED, "mamba3": []}


def arguments(model: str, task: str) -> list[str]:
    return [*f"task={task}".split(), f"model={model}", *EXACT, *SIZES, *MODELS[model]]


HALVES = [(model, task) for model in MODELS for task in ("parity", "group task.group=Z2")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "task"), [*HALVES, ("mamba3", "sum"), ("mamba3", "sum task.modulus=6")]
)
def test_every_string_is_answered_without_training(model: str, task: str) -> None:
    trial = LengthTrial(composed(arguments(model, task)), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 16, 200, "cpu")
    assert batch.targets.tolist() == [trial.task.oracle(row) for row in batch.tokens.tolist()]
    with torch.no_grad():
        logits, _ = trial.model(batch.tokens)
    assert torch.equal(logits.argmax(-1), batch.targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "changed", "message"),
    [
        ("mamba", "task=sum", "needs a task of two states, such as parity, not 5: model=mamba3"),
        ("mamba", "task=even_pair", "along one cycle"),
        ("mamba2", "task=sum", "needs a task of two states"),
        ("mamba2", "model.mixer.range=positive", r"needs model\.mixer\.range=signed"),
        ("mamba3", "task=group task.group=S3", "along one cycle"),
        ("mamba3", "model.mixer.learn_x0=false", r"needs model\.mixer\.learn_x0=true"),
        ("mamba3", "model.mixer.heads=24", "heads of at least two channels here, not 1"),
        ("mamba", "model.mixer.range=positive", r"needs model\.mixer\.range=signed"),
        ("mamba", "model.mixer.learn_x0=false", r"needs model\.mixer\.learn_x0=true"),
        ("mamba", "model.mixer.conv_size=4", r"needs model\.mixer\.conv_size=0"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_needed(
    model: str, changed: str, message: str
) -> None:
    key = changed.partition("=")[0]
    kept = [word for word in arguments(model, "parity") if word.partition("=")[0] != key]
    with pytest.raises(UserError, match=message):
        validated(composed([*kept, *changed.split()]))


def table(*moves: list[int], start: int = 0) -> SimpleNamespace:
    """Return a machine of permutations of its states, each state its own class."""
    columns = [list(row) for row in zip(*moves, strict=True)]
    return SimpleNamespace(start=start, delta=columns, answers=list(range(len(columns))))


def test_a_cycle_is_found_where_no_symbol_is_all_of_it() -> None:
    """Z6 of a step of two and one of three: each symbol's turn adds up as its moves do."""
    by_two, by_three = [(q + 2) % 6 for q in range(6)], [(q + 3) % 6 for q in range(6)]
    machine = table(by_two, by_three, start=4)
    turns = turns_of(machine)
    state, angle = machine.start, 0
    for symbol in (0, 1, 1, 0, 0, 1, 0):
        state = machine.delta[state][symbol]
        angle = (angle + turns.symbols[symbol]) % 6
        assert turns.classes[state] == angle


@pytest.mark.parametrize(
    "moves",
    [
        ([1, 0, 3, 2], [2, 3, 0, 1]),  # Z2 x Z2: no cycle of four
        ([1, 0, 2], [0, 2, 1]),  # S3 on three points
        ([0, 0, 1],),  # no permutation
        ([1, 0, 2],),  # one state that is never left
    ],
)
def test_other_groups_are_refused(moves: tuple[list[int], ...]) -> None:
    with pytest.raises(ValueError, match="along one cycle"):
        turns_of(table(*moves))
