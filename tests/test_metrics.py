"""Which metric a run has, and which of two values is better."""

from __future__ import annotations

import math

from lrbench.metrics import ACCURACY, NRMSE, metric_of


def test_more_accuracy_and_less_error_are_better() -> None:
    assert ACCURACY.merit(0.9) > ACCURACY.merit(0.8)
    assert NRMSE.merit(0.1) > NRMSE.merit(0.2)
    assert (ACCURACY.worst, NRMSE.worst) == (0.0, math.inf)


def test_only_an_accuracy_can_be_perfect() -> None:
    assert ACCURACY.perfect(1.0) and not ACCURACY.perfect(0.999)
    assert not NRMSE.perfect(0.0) and not NRMSE.perfect(1.0)


def test_a_result_tells_its_metric_by_its_evaluations() -> None:
    def result(*names: str) -> dict[str, object]:
        return {"evaluations": [{"metric": name} for name in names]}

    assert metric_of(result("loss", "nrmse")) is NRMSE
    assert metric_of(result("accuracy", "loss")) is ACCURACY
    assert metric_of(result("loss")) is ACCURACY
    assert metric_of({}) is ACCURACY
