"""The horizon: up to which tested length a model still knows the rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lrbench.statistics.proportion import SOLVED, wilson

FEWEST_STRINGS = 381  # of fewer, even answers that are all right leave the lower bound below 0.99


def passes(correct: int, n: int) -> bool:
    """Whether the Wilson lower bound of an accuracy, `correct` of `n`, reaches 0.99."""
    return wilson(correct, n)[0] >= SOLVED


def horizon(scores: Iterable[tuple[int, int, int]]) -> dict[str, Any]:
    """Return {lower, upper, text} of (length, correct, n): up to where every tested length passes.

    `lower` is None where even the shortest fails, `upper` None where all pass.
    """
    lower: int | None = None
    for length, correct, n in sorted(scores):
        if not passes(correct, n):
            text = f"< {length:,}" if lower is None else f"{lower:,} < h <= {length:,}"
            return {"lower": lower, "upper": length, "text": text}
        lower = length
    return {"lower": lower, "upper": None, "text": f"> {lower:,}"}
