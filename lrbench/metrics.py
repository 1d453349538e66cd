"""Metrics of answers, and the one place that knows whether a metric is an accuracy or an error.

A report reads the metric of a run from the names of its evaluations, a program from its task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """How answers are scored, and whether more is better.

    `accuracy` is the share of strings with the right final answer. `nrmse` is the root of the
    summed squared error over the summed squared target, at every position of every string.
    """

    name: str = "accuracy"
    higher_is_better: bool = True

    @property
    def counts(self) -> bool:
        """Whether a string is right or wrong: only then is there guessing, solving, a horizon."""
        return self.name == "accuracy"

    @property
    def worst(self) -> float:
        """What a run that came to nothing is worth."""
        return 0.0 if self.counts else float("inf")

    @property
    def title(self) -> str:
        """What a heading says: accuracy, NRMSE."""
        return self.name if self.counts else self.name.upper()

    def merit(self, value: float) -> float:
        """Return what there is to be more of."""
        return value if self.higher_is_better else -value

    def perfect(self, value: float) -> bool:
        """Whether nothing can be better; an error is never believed to be nothing."""
        return self.counts and value == 1.0


ACCURACY = Metric()
NRMSE = Metric("nrmse", higher_is_better=False)
METRICS = {metric.name: metric for metric in (ACCURACY, NRMSE)}


def metric_of(result: Mapping[str, Any]) -> Metric:
    """Return the metric of the content of a result.json; accuracy where it has no evaluation."""
    return metric_among(row.get("metric", "") for row in result.get("evaluations") or [])


def metric_among(names: Iterable[str]) -> Metric:
    """Return the first of `names` that is a metric, not a loss; accuracy where none is."""
    return next((METRICS[name] for name in names if name in METRICS), ACCURACY)
