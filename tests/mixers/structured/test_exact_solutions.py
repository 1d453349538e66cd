"""Automata written in by hand: right over 10,000 symbols, in every mode, from a carried state.

A5 and S5 are not solvable, so that no diagonal recurrence of one layer has them (Merrill, Petty &
Sabharwal 2024, arXiv:2404.08819); a permutation matrix for each letter does. A letter that sends
several states to one (`even_pair` has some) is a one-hot column too, but no one-hot row.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import MIXERS
from lrbench.runs.train.validate import validated

LENGTH, CUT = 10_000, 4_999
STACK = ["model.backbone.name=bare", "model.layers=1", "model.mixer.init=exact", "seed=0"]
TASKS = {  # words, states, the most symbols
    "A5": ("task=group task.group=A5", 60, 60),
    "S5": ("task=group task.group=S5 task.letters=swaps", 120, 120),
    "S3": ("task=group task.group=S3", 6, 6),
    "even_pair": ("task=even_pair", 11, 5),
}
SETTINGS = {
    "pdssm": ["model.mixer.dictionary={symbols}", "model.mixer.state_size={size}"],
    "sdssm": [
        *("model.mixer.dictionary={symbols}", "model.mixer.state_size={size}"),
        "model.mixer.learn_x0=true",
    ],
    "slice": ["model.mixer.structure=dense"],
}
SPARSE = ("sequential", "tree", "chunked", "fused", "auto")  # the others write matrices out


def arguments(model: str, task: str, *words: str) -> list[str]:
    what, size, symbols = TASKS[task]
    sizes = [word.format(size=size, symbols=symbols) for word in SETTINGS[model]]
    width = f"model.width={max(size, symbols)}"
    return [*what.split(), f"model={model}", *STACK, width, *sizes, *words]


CASES = [
    *(("pdssm", "A5", mode, ()) for mode in SPARSE),
    ("pdssm", "S5", "auto", ()),
    *(("pdssm", "S3", mode, ()) for mode in MIXERS.get("pdssm").cls.modes),
    ("pdssm", "A5", "auto", ("model.mixer.orientation=row",)),
    ("pdssm", "even_pair", "auto", ()),
    *(("sdssm", "S3", mode, ()) for mode in MIXERS.get("sdssm").cls.modes),
    *(("sdssm", task, "auto", ()) for task in ("A5", "S5", "even_pair")),
    ("sdssm", "S3", "auto", ("model.width=8",)),
    *(("slice", "S3", mode, ()) for mode in MIXERS.get("slice").cls.modes),
    *(("slice", task, "auto", ()) for task in ("A5", "S5", "even_pair")),
    (
        "slice",
        "S3",
        "auto",
        ("model.mixer.structure=block", "model.width=12", "model.mixer.block_size=6"),
    ),
]


def margin(logits: Tensor, targets: Tensor) -> float:
    """Return by how much the right class is ahead of the best other, where it is least."""
    asked = targets >= 0
    logits, targets = logits[asked], targets[asked]
    right = logits.gather(-1, targets[..., None])
    others = logits.scatter(-1, targets[..., None], -torch.inf)
    return float((right - others.amax(-1, keepdim=True)).min())


@torch.no_grad()
@pytest.mark.parametrize(("model", "task", "mode", "words"), CASES)
def test_right_at_every_position_of_ten_thousand(
    model: str, task: str, mode: str, words: tuple[str, ...]
) -> None:
    trial = LengthTrial(composed(arguments(model, task, *words)), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 1, LENGTH, "cpu")
    assert trial.task.oracle(batch.tokens[0].tolist()) == batch.targets[0].tolist()
    head, state = trial.model(batch.tokens[:, :CUT], mode=mode)
    tail, state = trial.model(batch.tokens[:, CUT:], state, mode=mode)
    logits = torch.cat([head, tail], 1)
    assert logits.dtype == torch.float32
    least, first = margin(logits, batch.targets), margin(logits[:, :64], batch.targets[:, :64])
    print(f"{model}, {task}, {mode}: margin {least:.4f} of {first:.4f}")
    assert least > 0.99 * first > 1


@pytest.mark.parametrize(
    ("model", "task", "words", "message"),
    [
        (
            "pdssm",
            "even_pair",
            ["model.mixer.orientation=row"],
            "whose symbols permutes the states",
        ),
        ("pdssm", "A5", ["model.mixer.dictionary=59"], "dictionary of at least 60 here .the symb"),
        (
            "pdssm",
            "A5",
            ["model.mixer.state_size=59"],
            "state_size of at least 60 here .the states",
        ),
        ("pdssm", "A5", ["model.width=59"], "model.width of at least 60 here"),
        ("sdssm", "A5", ["model.mixer.learn_x0=false"], "needs model.mixer.learn_x0=true"),
        ("sdssm", "A5", ["model.mixer.dictionary=59"], "dictionary of at least 60 here"),
        ("slice", "A5", ["model.mixer.structure=diagonal"], "needs model.mixer.structure=block or"),
        ("slice", "A5", ["model.mixer.structure=block"], "block_size of at least 60 here"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_needed(
    model: str, task: str, words: list[str], message: str
) -> None:
    keys = [word.partition("=")[0] for word in words]
    kept = [word for word in arguments(model, task) if word.partition("=")[0] not in keys]
    with pytest.raises(UserError, match=message):
        validated(composed([*kept, *words]))


@torch.no_grad()
def test_columns_of_norm_one_are_safe_only_where_letters_are_apart() -> None:
    """`sdssm` on A5: a softmax whose gap is 20 is exact, one of 10 leaks into a growing state.

    Columns of p-norm one may sum to more than one: 59 leaks of e^-10 make them so.
    """
    trial = LengthTrial(composed(arguments("sdssm", "A5")), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 1, LENGTH, "cpu")
    select, right, sizes = trial.model.mixers[0].select.weight, {}, {}
    for gap in (20.0, 10.0):
        select.copy_(torch.eye(*select.shape) * gap)
        logits, state = trial.model(batch.tokens)
        right[gap] = logits.argmax(-1) == batch.targets
        sizes[gap] = float(state[0].norm())
    first = int((~right[10.0]).nonzero()[0, 1]) + 1
    print(f"gap 10: norm {sizes[10.0]:.1e}, wrong from symbol {first:,} on; 20: norm {sizes[20.0]}")
    assert bool(right[20.0].all()) and 0.9 < sizes[20.0] < 1.1
    assert first > 1_000 and sizes[10.0] > 1e6
