"""The horizon: up to which tested length a model still knows the rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from lrbench.statistics import wilson
from lrbench.training.scoring import Score, score
from lrbench.training.trial import Trial

THRESHOLD = 0.99
STRINGS_AGAIN = 1000  # strings of the re-run in float64


def passes(result: Score) -> bool:
    """Whether the Wilson lower bound of an accuracy reaches the threshold."""
    return wilson(result.correct, result.n)[0] >= THRESHOLD


def horizon(scores: list[Score]) -> dict[str, Any]:
    """Return {lower, upper, text}: the largest length up to which every tested one passes.

    `lower` is None where even the shortest fails, `upper` None where all pass.
    """
    lower: int | None = None
    for result in sorted(scores, key=lambda s: s.length):
        if not passes(result):
            text = (
                f"< {result.length:,}" if lower is None else f"{lower:,} < h <= {result.length:,}"
            )
            return {"lower": lower, "upper": result.length, "text": text}
        lower = result.length
    return {"lower": lower, "upper": None, "text": f"> {lower:,}"}


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
