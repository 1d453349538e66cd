"""Logs of looks: read for rows and curves only, and named where they cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from lrbench.report.output.objects import to_objects
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request

LOOK = {
    **{"step": 400, "test_length": 500, "test_accuracy": 0.25, "test_n": 128},
    **{"validation_accuracy": 0.9, "validation_loss": 0.1, "seconds": 1.5},
}


def test_tables_of_finished_runs_read_no_log(runs: Path, write: Callable[..., Path]) -> None:
    logs = [write(seed=seed) / "metrics.jsonl" for seed in (0, 1)]
    result = json.loads((logs[0].parent / "result.json").read_text())
    steps = sorted({400, *result["checkpoints"].values()})
    looks = [{**LOOK, "step": step, "test_accuracy": 1 / n} for n, step in enumerate(steps, 1)]
    logs[0].write_text("\n".join(json.dumps({"step": 400, "look": look}) for look in looks))
    logs[1].mkdir()  # it cannot be read, and whoever reads it names it
    collection = collect(runs)
    for format in ("markdown", "latex"):
        render(collection, format)
    assert collection.problems == []
    rows = collection.every_row
    seen = rows[rows["which"] == "every"]
    assert seen[["value", "seed"]].to_numpy().tolist() == [[1 / n, 0] for n in (1, 2, 3, 4)]
    [(path, reason)] = collection.problems
    assert path == logs[1] and reason.startswith("cannot be read")
    assert len(collection.every_row) == len(rows) and len(collection.problems) == 1


def test_a_log_without_a_look_that_was_believed_is_damaged(
    runs: Path, write: Callable[..., Path]
) -> None:
    """The run's best look is at 3,000 updates, its last at the end."""
    log = write(seed=0) / "metrics.jsonl"
    steps = json.loads((log.parent / "result.json").read_text())["checkpoints"].values()
    lines = [json.dumps({"step": step, "look": {**LOOK, "step": step}}) for step in sorted(steps)]
    log.write_text("\n".join([*lines, lines[0][:20]]))  # a torn last line is normal
    collection = collect(runs)
    assert len(collection.every_row) > 0 and collection.problems == []
    log.write_text("\n".join(lines[1:]))
    collection = collect(runs)
    assert len(collection.every_row) > 0
    assert len(collection.every_score) > 0  # read again, and named once
    [(path, reason)] = collection.problems
    assert path == log and f"lacks the look at update {min(steps):,}" in reason


def test_json_tells_a_log_that_cannot_be_read(runs: Path, write: Callable[..., Path]) -> None:
    (write(seed=0) / "metrics.jsonl").mkdir()
    told = to_objects(collect(runs), Request())
    assert "cannot be read" in told["problems"][0]["reason"]
