"""Training updates per second: the released step against ours, alternating in one process.

    python -m benchmarks.update_speed [--tasks sum mod_arith] [--threads 2] [--write]

One repetition times the released step, then ours, for `--seconds` each; each repetition gives one
ratio, so a machine that slows down for a while slows both sides of it. An update is a whole one on
either side: a fresh batch, forward, backward, optimiser. Two threads on a shared machine measure
the neighbours, for every small operation ends in a barrier: keep `--threads 1` there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.released_step import RECIPES, SCANS, ReleasedStep
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
Update = Callable[[], object]


def our_update(task: str, model: str, seed: int) -> Update:
    """Return the function that makes one of lrbench's own training updates."""
    from lrbench.cli.planning import composed
    from lrbench.training.trial import Trial

    return Trial(composed([f"task={task}", f"model={model}"]), seed).update


def timed(update: Update, seconds: float, least: int = 3) -> dict[str, float]:
    """Repeat `update` for `seconds`, at least `least` times: how many, and how long it took."""
    start = time.perf_counter()
    updates, spent = 0, 0.0
    while updates < least or spent < seconds:
        update()
        updates += 1
        spent = time.perf_counter() - start
    return {"updates": updates, "seconds": spent, "updates_per_second": updates / spent}


def compare(
    released: Update, ours: Update, repetitions: int, seconds: float, warm_up: int
) -> list[dict[str, Any]]:
    """Time released, ours, released, ours, ...; one entry with its ratio per repetition."""
    for update in (released, ours):
        for _ in range(warm_up):
            update()
    entries = []
    for _ in range(repetitions):
        first, second = timed(released, seconds), timed(ours, seconds)
        ratio = second["updates_per_second"] / first["updates_per_second"]
        entries.append({"released": first, "ours": second, "ratio": ratio})
    return entries


def summary(entries: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median, smallest and largest rate of either side and of their ratio."""
    series = {
        "released": [entry["released"]["updates_per_second"] for entry in entries],
        "ours": [entry["ours"]["updates_per_second"] for entry in entries],
        "ratio": [entry["ratio"] for entry in entries],
    }
    return {
        name: {"median": median(values), "min": min(values), "max": max(values)}
        for name, values in series.items()
    }


def told(task: str, entries: list[dict[str, Any]], numbers: dict[str, dict[str, float]]) -> str:
    """Return the lines a person reads about one task."""
    lines = [f"{task}: updates per second"]
    for number, entry in enumerate(entries, start=1):
        released, ours = (entry[side]["updates_per_second"] for side in ("released", "ours"))
        ratio = entry["ratio"]
        lines.append(
            f"  {number}: released {released:8.2f}   ours {ours:8.2f}   ratio {ratio:7.2f}"
        )
    for name, of in numbers.items():
        line = (
            f"  {name:8} median {of['median']:8.2f}   min {of['min']:8.2f}   max {of['max']:8.2f}"
        )
        lines.append(line)
    return "\n".join(lines)


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--model", default="blockdiag", help="ours: a registered model")
    parser.add_argument("--repetitions", type=int, default=5, help="at least 3")
    parser.add_argument("--seconds", type=float, default=5.0, help="per side and repetition")
    parser.add_argument("--warm-up", type=int, default=2, help="untimed updates of either side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scan", choices=list(SCANS), default="loop", help="the released step's")
    parser.add_argument("--compile", action="store_true", help="torch.compile the released step")
    parser.add_argument(
        "--write", action="store_true", help="write results/update_speed_MODEL.json"
    )
    options = parser.parse_args(words)
    if options.repetitions < 3:
        parser.error("--repetitions must be at least 3: one ratio says nothing about noise")
    return options


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as `lrbench train` does; it serves both sides
    tasks = {}
    for task in options.tasks:
        released = ReleasedStep(
            task, seed=options.seed, scan=options.scan, compile=options.compile
        ).update
        ours = our_update(task, options.model, options.seed)
        entries = compare(released, ours, options.repetitions, options.seconds, options.warm_up)
        numbers = summary(entries)
        tasks[task] = {"summary": numbers, "repetitions": entries}
        print(told(task, entries, numbers), flush=True)
    if options.write:
        report = {
            "what": "training updates per second, released step against ours",
            "options": {k: v for k, v in vars(options).items() if k != "write"},
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load_average": os.getloadavg(),
            "tasks": tasks,
        }
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"update_speed_{options.model}.json"
        path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
