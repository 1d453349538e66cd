"""The checkpoint rules of `fan2024`: the choice of one look of a run.

best   the best accuracy (or whatever the task is scored by) of a look at the test length, ties
       by validation loss: the paper's rule, which selects on the test distribution and is
       optimistic
id     the lowest validation loss at the training length
band   the best accuracy over lengths a little beyond it, ties by loss
last   the last look
"""

from __future__ import annotations

from collections.abc import Iterable

from lrbench.metrics import ACCURACY, Metric
from lrbench.protocols.base import ByLength
from lrbench.records import Look
from lrbench.training.trial import Rules


class LengthRules(Rules):
    """Looks by what they saw at the test length, at the training length and in between."""

    def __init__(
        self,
        kept: dict[str, Look] | None = None,
        metric: Metric = ACCURACY,
        names: Iterable[str] = ByLength.rules,
    ) -> None:
        super().__init__(kept)
        self.metric, self.names = metric, tuple(names)

    def consider(self, look: Look) -> list[str]:
        believed = [
            rule for rule in self.names if rule not in self.kept or self._prefers(rule, look)
        ]
        self.kept.update(dict.fromkeys(believed, look))
        return believed

    def _prefers(self, rule: str, look: Look) -> bool:
        return merit(rule, look, self.metric) > merit(rule, self.kept[rule], self.metric)


def merit(rule: str, look: Look, metric: Metric = ACCURACY) -> tuple[float, ...]:
    """Return what a rule wants more of, compared as a tuple."""
    if rule == "best":
        return (metric.merit(look[f"test_{metric.name}"]), -look["validation_loss"])
    if rule == "id":
        return (-look["validation_loss"],)
    if rule == "band":
        return (metric.merit(look[f"band_{metric.name}"]), -look["band_loss"])
    return (look["step"],)
