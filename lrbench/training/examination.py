"""The examination of the checkpoints that a run kept; a kill loses no finished section of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from lrbench.records import Evaluation, Horizon, Look
from lrbench.training.trial import Check, Trial

T = TypeVar("T", bound=Trial)
Scored = tuple[list[Evaluation], Horizon | None]  # rows without `which`, and where accuracy ends


class Kept:
    """The model weights that each rule of a run kept, and what is scored of them already.

    load: returns the weights of a rule. Scores are forgotten here; the `Kept` of a run's folder
    (lrbench/runs/folder/examined.py) has them after a kill, too.
    """

    def __init__(self, load: Callable[[str], dict[str, Tensor]]) -> None:
        self._load = load

    def __call__(self, rule: str) -> dict[str, Tensor]:
        """Return the model weights that a rule kept."""
        return self._load(rule)

    def scored(self, weights: Mapping[str, Tensor], section: str) -> Scored | None:
        """Return what a section gave with these weights; None if nobody knows."""
        return None

    def keep(self, weights: Mapping[str, Tensor], section: str, step: int, scored: Scored) -> None:
        """Remember what a section gave. step: the update of the weights."""


@dataclass(frozen=True)
class Section:
    """A section of a checkpoint's examination, such as a split: scored whole, or not at all.

    name: of all that decides its scores beside the weights. symbols: how many it reads.
    """

    name: str
    symbols: int
    score: Callable[[], Scored]


def each_kept(
    trial: T,
    kept: Kept,
    sections: Sequence[Section],
    looks_of: Callable[[T, Look, str], list[Evaluation]],
    check: Check,
) -> tuple[list[Evaluation], dict[str, Horizon]]:
    """Examine the checkpoint that each rule kept; rules that kept the same update share one.

    A section that was scored before a kill is not scored again. Returns (evaluation rows, horizon
    of each rule).

    looks_of: the rows of the look that a rule believed.
    """
    rows: list[Evaluation] = []
    horizons: dict[str, Horizon] = {}
    examined: dict[int, list[Scored]] = {}
    check(planned=trial.rules.updates_kept * sum(one.symbols for one in sections))
    for rule, step in trial.rules.steps().items():
        if step not in examined:
            weights = kept(rule)
            trial.model.load_state_dict(weights)
            examined[step] = []
            for section in sections:
                scored = kept.scored(weights, section.name)
                if scored is None:
                    scored = section.score()
                    kept.keep(weights, section.name, step, scored)
                else:
                    check(planned=-section.symbols)
                examined[step].append(scored)
        rows += looks_of(trial, trial.rules.kept[rule], rule)
        for tests, horizon in examined[step]:
            rows += [{**row, "which": rule} for row in tests]
            horizons |= {} if horizon is None else {rule: horizon}
    return rows, horizons
