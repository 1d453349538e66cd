"""The choice between tuned settings, by validation strings at the training length.

For a run over a corpus the dev split decides.

Every number here is of the look that the rule `id` chooses: on strings that were not trained on and
are not as long as the test. The loss decides, as it does for that rule. It is over every supervised
position, an accuracy over final ones only; and among models that are all at chance, the best
accuracy on a thousand strings is luck. A run that diverged or failed counts against its setting
before any loss does.

Over a corpus the look is the one that the rule `best` chooses, which is of the dev split.
`protocol.select_by` says whether its loss or its accuracy decides, as for that rule. No number of a
test split is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrbench.metrics import ACCURACY, Metric, metric_of
from lrbench.protocols.base import declared
from lrbench.records import Result
from lrbench.statistics import mean

FAILED = "failed"  # how a run ended that has no result


@dataclass(frozen=True)
class ValidationScore:
    """What one run came to: validation accuracy and loss, and the update of that look.

    `accuracy` is the value of `metric`, whatever that is. `select_by` is which of the two decides.
    """

    accuracy: float
    loss: float
    step: int
    metric: Metric = ACCURACY
    select_by: str = "loss"


@dataclass(frozen=True)
class Attempt:
    """One run of a point: its seed, how it ended, and its score if it ended well."""

    seed: int
    status: str
    score: ValidationScore | None = None


@dataclass(frozen=True)
class Point:
    """One combination of the grid's values, with its runs; `values` are (key, value)."""

    values: tuple[tuple[str, Any], ...]
    attempts: tuple[Attempt, ...]

    @property
    def scores(self) -> list[ValidationScore]:
        """The scores of the runs that ended well."""
        return [attempt.score for attempt in self.attempts if attempt.score is not None]

    @property
    def metric(self) -> Metric:
        """What the runs are scored by."""
        return self.scores[0].metric if self.scores else ACCURACY

    @property
    def accuracy(self) -> float:
        """Mean validation accuracy (or error) over all runs; one without a score is the worst."""
        if not self.metric.counts:
            return self._over_all([score.accuracy for score in self.scores])
        return math.fsum(score.accuracy for score in self.scores) / max(1, len(self.attempts))

    @property
    def step(self) -> float:
        """Mean update of the looks; infinite if a run has none."""
        return self._over_all([float(score.step) for score in self.scores])

    def _over_all(self, values: list[float]) -> float:
        return mean(values) if values and len(values) == len(self.attempts) else math.inf


def attempt(seed: int, result: Result | None) -> Attempt:
    """Return how a run ended, by its result.json; None where it has none, so it failed."""
    if result is None:
        return Attempt(seed, FAILED)
    score = score_of(result)
    if result["status"] == "finished" and score is None:
        return Attempt(seed, "not measured")
    return Attempt(seed, result["status"], score)


def score_of(result: Result) -> ValidationScore | None:
    """Return the score in the content of a result.json; None for a run that diverged."""
    if result["status"] != "finished":
        return None
    protocol = (result.get("config") or {}).get("protocol") or {}
    rule, split, select_by = declared(str(result.get("protocol"))).selection(protocol)
    values = {
        row["metric"]: row["value"]
        for row in result["evaluations"]
        if (row["kind"], row["split"], row["which"]) == ("look", split, rule)
    }
    step, metric = (result.get("checkpoints") or {}).get(rule), metric_of(result)
    if values.get(metric.name) is None or values.get("loss") is None or step is None:
        return None
    return ValidationScore(
        float(values[metric.name]), float(values["loss"]), step, metric, select_by
    )


def winner(points: Sequence[Point]) -> int | None:
    """Return which point is best; None if no run of any ended well.

    The fewest runs that diverged or failed, then the lowest mean loss of the others; ties by the
    better mean accuracy (or error), by fewer updates until the look, then by the order of the grid.
    Where the accuracy decides, it comes before the loss.
    """
    candidates = [index for index, point in enumerate(points) if point.scores]
    if not candidates:
        return None
    return min(candidates, key=lambda i: _order(points[i], i))


def _order(point: Point, index: int) -> tuple[float, float, float, float, int]:
    lost = len(point.attempts) - len(point.scores)
    loss = mean([score.loss for score in point.scores])
    demerit = -point.metric.merit(point.accuracy)
    if point.scores[0].select_by == "accuracy":
        loss, demerit = demerit, loss
    return (lost, loss, demerit, point.step, index)
