"""How long `lrbench report` takes over 2,000 runs, and the memory it needs: at most 3 s and 300 MB.

The run folders are made from real results (results/): each cell gets a fingerprint, a model and a
learning rate of its own, each run a seed and accuracies. A few are damaged or unfinished. The
real command runs in a process of its own, once to fill the file cache and then `--repeats` times.
On a shared machine compare the load and the processor seconds beside the wall seconds.

    python benchmarks/report_speed.py [--runs 2000] [--format markdown] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).parent / "results" / "report_speed.json"
SEEDS = 5
MODELS = 20
DAMAGED_EVERY = 100  # every so many runs one is cut short, and the one after it has no result
BOUNDS = {"seconds": 3.0, "megabytes": 300.0}


def log(updates: int = 10_000, log_every: int = 100, look_every: int = 1_000) -> str:
    """Return a metrics.jsonl of the usual size."""
    lines: list[dict[str, Any]] = []
    for step in range(log_every, updates + 1, log_every):
        lines.append({"step": step, "loss": 1.0 / step, "lr": 1e-3, "seconds": step / 100})
        if step % look_every == 0:
            look = {"step": step, "test_length": 500, "test_accuracy": 0.25, "test_n": 128}
            more = {"validation_accuracy": 0.5, "validation_loss": 1.0, "validation_n": 1024}
            lines.append({"step": step, "look": look | more, "believed": ["best", "last"]})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def main() -> None:
    """Make the runs, time the command, print and perhaps keep what was measured."""
    parser = argparse.ArgumentParser(description="Time lrbench report over many runs.")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--format", default="markdown")
    parser.add_argument("--write", action="store_true", help=f"keep the numbers in {KEPT.name}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), chosen.runs)
        measured = measure(Path(folder), chosen.format, chosen.repeats)
    measured = {"runs": chosen.runs, "format": chosen.format, "bounds": BOUNDS, **measured}
    print(json.dumps(measured, indent=2))
    if chosen.write:
        KEPT.write_text(json.dumps(measured, indent=2) + "\n")


def make_runs(folder: Path, count: int) -> None:
    """Write `count` run folders, like real ones in everything that a report reads."""
    real = [
        json.loads(path.read_text()) for path in sorted((ROOT / "results").rglob("result.json"))
    ]
    rng, lines = random.Random(0), log()
    for number in range(count):
        cell, seed = divmod(number, SEEDS)
        result = variant(real[cell % len(real)], cell, seed, rng)
        names = [result[name] for name in ("task", "model", "protocol", "fingerprint")]
        run = folder.joinpath(*names, f"s{seed}")
        run.mkdir(parents=True)
        (run.parent / "config.json").write_text(json.dumps(result["config"]))
        (run / "metrics.jsonl").write_text(lines)
        text = json.dumps(result, indent=2)
        if number % DAMAGED_EVERY == 0:
            text = text[: len(text) // 2]
        if number % DAMAGED_EVERY != 1:
            (run / "result.json").write_text(text)


def variant(real: dict[str, Any], cell: int, seed: int, rng: random.Random) -> dict[str, Any]:
    """Return a copy of a real result with another model, fingerprint, seed and accuracies."""
    result: dict[str, Any] = json.loads(json.dumps(real))
    model = f"model_{cell % MODELS:02d}"
    result |= {"model": model, "fingerprint": f"{cell:012x}", "seed": seed, "data_seed": seed}
    result["config"]["model"]["name"] = model
    result["config"]["optim"]["lr"] = 1e-4 * (1 + cell // MODELS)
    result["config"]["seed"] = seed
    for row in result["evaluations"]:
        if row["metric"] == "accuracy":
            row["value"] = round(rng.random() * row["n"]) / row["n"]
    return result


def measure(folder: Path, format: str, repeats: int) -> dict[str, Any]:
    """Time the command; the memory is that of the largest of its processes."""
    command = [sys.executable, "-m", "lrbench", "report", "--runs", str(folder), "--format", format]
    seconds, processor, loads = [], [], []
    for _ in range(repeats + 1):
        loads.append(round(os.getloadavg()[0], 2))
        began, used = time.perf_counter(), processor_seconds()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds.append(round(time.perf_counter() - began, 3))
        processor.append(round(processor_seconds() - used, 3))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "seconds": {
            "first": seconds[0],
            "all": seconds[1:],
            "median": statistics.median(seconds[1:]),
            "worst": max(seconds[1:]),
        },
        "processor_seconds": {
            "all": processor[1:],
            "median": statistics.median(processor[1:]),
        },
        "peak_mib": round(peak, 1),
        "lines": done.stdout.count("\n"),
        "machine": {
            "python": platform.python_version(),
            "system": platform.system(),
            "cores": os.cpu_count(),
            "load_before_each": loads,
        },
    }


def processor_seconds() -> float:
    """Return what all ended children have used of a core: others on the machine do not count."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    main()
