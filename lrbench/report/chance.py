"""What a number has to be held against: baselines, and guessing under the same rule."""

from __future__ import annotations

from typing import Any

from lrbench.metrics import metric_of


def best_baseline(result: dict[str, Any], length: int) -> dict[str, Any] | None:
    """Return the baseline of `result` that scores best at `length`: what chance gives."""
    metric = metric_of(result)
    known = [row for row in result.get("baselines") or [] if row["length"] == length]
    return max(known, key=lambda row: metric.merit(float(row["value"])), default=None)


def best_baselines(result: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return what `best_baseline` says at each length that has one."""
    metric = metric_of(result)
    best: dict[int, dict[str, Any]] = {}
    for row in result.get("baselines") or []:
        known = best.setdefault(row["length"], row)
        if metric.merit(float(row["value"])) > metric.merit(float(known["value"])):
            best[row["length"]] = row
    return best


def guessing_at(result: dict[str, Any], rule: str, length: int) -> dict[str, Any] | None:
    """Return the row on what a guesser scores at `length` when its number is taken by `rule`."""
    for row in result.get("guessing") or []:
        if (row["rule"], row["length"]) == (rule, length):
            return dict(row)
    return None
