"""How long a sweep may take: seconds an update of past runs, times the updates that are allowed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from lrbench.report.runs.schema import result_complaint
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.sweeps.budget import updates
from lrbench.sweeps.plan import Plan, PlannedRun

SIZES = ("train_length", "train_split", "batch_size", "micro_batch", "bucket", "supervision")


class Estimate:
    """What runs like those of a plan cost in the past, below the same output folders."""

    def __init__(self, plan: Plan) -> None:
        self._rates: dict[str, list[float]] = {}
        folders = {run.cell.folder.parents[2]: None for run in plan.runs}  # output_dir/task
        for result in _results(folders):
            seconds, steps = result.get("train_seconds"), result["steps"]
            if seconds and steps:
                self._rates.setdefault(_cost(result["config"]), []).append(seconds / steps)

    def seconds(self, run: PlannedRun) -> float | None:
        """Return the most that training this run should take; None if none like it was measured.

        All updates are counted: one that stops early, or goes on from a checkpoint, takes less.
        """
        rates = self._rates.get(_cost(run.cell.settings))
        return median(rates) * updates(run.cell.config) if rates else None


def _results(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for folder in folders:
        for path in folder.glob("*/*/*/s*/result.json"):
            try:
                result = files.read_json(path)
            except UnreadableFile:
                continue
            if result_complaint(result) is None:
                yield result


def _cost(config: dict[str, Any]) -> str:
    """What two configurations share whose updates cost the same."""
    protocol = config.get("protocol") or {}
    sizes = [protocol.get(key) for key in SIZES]
    parts = [config.get("task"), config.get("model"), sizes, config.get("threads")]
    return json.dumps(parts, sort_keys=True)
