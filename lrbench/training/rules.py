"""How one number is taken from a run: which of its looks is believed.

    best   the best accuracy (or whatever the task is scored by) of a look at the test length, ties
           by validation loss: the paper's rule, which selects on the test distribution and is
           optimistic
    id     the lowest validation loss at the training length
    band   the best accuracy over lengths a little beyond it, ties by loss
    last   the last look

Each rule keeps the checkpoint of its look; on equal scores the earlier look stays.
"""

from __future__ import annotations

from typing import Any

from lrbench.metrics import ACCURACY, Metric

RULES = ("best", "id", "band", "last")


def merit(rule: str, look: dict[str, Any], metric: Metric = ACCURACY) -> tuple[float, ...]:
    """Return what a rule wants more of, compared as a tuple."""
    if rule == "best":
        return (metric.merit(look[f"test_{metric.name}"]), -look["validation_loss"])
    if rule == "id":
        return (-look["validation_loss"],)
    if rule == "band":
        return (metric.merit(look[f"band_{metric.name}"]), -look["band_loss"])
    return (look["step"],)


class Rules:
    """The look each rule believes so far: a dict {rule: look}."""

    def __init__(
        self, kept: dict[str, dict[str, Any]] | None = None, metric: Metric = ACCURACY
    ) -> None:
        self.kept: dict[str, dict[str, Any]] = dict(kept or {})
        self.metric = metric

    def consider(self, look: dict[str, Any]) -> list[str]:
        """Weigh a new look; return the rules that now believe it."""
        believed = [rule for rule in RULES if rule not in self.kept or self._prefers(rule, look)]
        self.kept.update(dict.fromkeys(believed, look))
        return believed

    def _prefers(self, rule: str, look: dict[str, Any]) -> bool:
        return merit(rule, look, self.metric) > merit(rule, self.kept[rule], self.metric)

    def steps(self) -> dict[str, int]:
        """Return the update at which each rule's look was taken."""
        return {rule: look["step"] for rule, look in self.kept.items()}

    def state(self) -> dict[str, dict[str, Any]]:
        """Return what a checkpoint keeps."""
        return dict(self.kept)
