"""What a number has to be held against: baselines, and guessing under the same rule."""

from __future__ import annotations

from typing import Any

from lrbench.metrics import metric_of


def best_baseline(result: dict[str, Any], length: int) -> dict[str, Any] | None:
    """Return the baseline of `result` that scores best at `length`: what chance gives."""
    metric = metric_of(result)
    known = [row for row in result.get("baselines") or [] if row.get("length") == length]
    return max(known, key=lambda row: metric.merit(float(row["value"])), default=None)


def best_baselines(result: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Return what `best_baseline` says at each length, or split, that has one."""
    metric = metric_of(result)
    best: dict[int | str, dict[str, Any]] = {}
    for row in result.get("baselines") or []:
        place = row["split"] if "split" in row else row["length"]
        known = best.setdefault(place, row)
        if metric.merit(float(row["value"])) > metric.merit(float(known["value"])):
            best[place] = row
    return best


def baselines_by_split(result: dict[str, Any]) -> dict[str, dict[str, tuple[float, int | None]]]:
    """Return {split: {baseline: (value, strings)}}; empty for a run that is tested at lengths."""
    found: dict[str, dict[str, tuple[float, int | None]]] = {}
    for row in result.get("baselines") or []:
        if "split" in row:
            strings = row.get("n")
            n = strings if type(strings) is int and strings > 0 else None
            found.setdefault(row["split"], {})[row["baseline"]] = (float(row["value"]), n)
    return found


def guessing_at(result: dict[str, Any], rule: str, length: int) -> dict[str, Any] | None:
    """Return the row on what a guesser scores at `length` when its number is taken by `rule`."""
    for row in result.get("guessing") or []:
        if (row["rule"], row["length"]) == (rule, length):
            return dict(row)
    return None
