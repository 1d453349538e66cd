"""The horizon: up to which tested length a model still knows the rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from lrbench.statistics import horizon as horizon_of
from lrbench.statistics import passes as passes_of
from lrbench.training.scoring import Score, score
from lrbench.training.trial import Trial

STRINGS_AGAIN = 1000  # strings of the re-run in float64


def passes(result: Score) -> bool:
    """Whether the Wilson lower bound of an accuracy reaches 0.99."""
    return passes_of(result.correct, result.n)


def horizon(scores: list[Score]) -> dict[str, Any]:
    """Return {lower, upper, text}: the largest length up to which every tested one passes.

    `lower` is None where even the shortest fails, `upper` None where all pass.
    """
    return horizon_of((score.length, score.correct, score.n) for score in scores)


def rule_or_rounding(
    trial: Trial, length: int, n: int, check: Callable[[], None]
) -> dict[str, Any]:
    """Score the first failing length once more in float64: is it the rule or rounding?"""
    exact = copy.deepcopy(trial.model).to(torch.float64)
    n = min(n, STRINGS_AGAIN)
    stream = trial.stream("test", length)
    again = score(exact, trial.task, stream, length, n, trial.device, check=check)
    verdict = "rounding" if passes(again) else "rule"
    return {"length": length, "value": again.accuracy, "n": n, "verdict": verdict}
