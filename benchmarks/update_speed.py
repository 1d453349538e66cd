"""Training updates per second: the released step against ours, alternating in one process.

    python -m benchmarks.update_speed [--tasks sum mod_arith] [--threads 2] [--write]

One round times the released step, then ours, for `--seconds` each. Each gives one ratio, so a
machine that slows down for a while slows both sides of it. An update is a whole one on either side:
a fresh batch, forward, backward, optimiser. Two threads on a shared machine measure the neighbours,
for every small operation ends in a barrier: keep `--threads 1` there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from benchmarks.released_step import RECIPES, SCANS, ReleasedStep
from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
Update = Callable[[], object]


def our_update(task: str, model: str, seed: int) -> Update:
    """Return the function that makes one of lrbench's own training updates."""
    from lrbench.cli.hydra.compose import composed
    from lrbench.protocols.fan2024.trial import LengthTrial

    return LengthTrial(composed([f"task={task}", f"model={model}"]), seed).update


def compare(
    released: Update, ours: Update, rounds: int, seconds: float, warm_up: int = 1
) -> Rounds:
    """Time released, ours, released, ours, .. after untimed updates of each."""
    sides = {"released": released, "ours": ours}
    for update in sides.values():
        for _ in range(warm_up - 1):
            update()
    return alternate(sides, rounds, seconds)


def summary(measured: Rounds) -> dict[str, dict[str, float]]:
    """Median, smallest and largest updates per second of either side, and of their ratio."""
    series = {
        side: [1 / seconds for seconds in measured.seconds[side]] for side in ("released", "ours")
    }
    series["ratio"] = measured.ratios("released", "ours")
    return {
        name: {"median": median(values), "min": min(values), "max": max(values)}
        for name, values in series.items()
    }


def printed(task: str, numbers: dict[str, dict[str, float]]) -> str:
    """Return the lines a person reads about one task."""
    lines = [f"{task}: updates per second"]
    for name, of in numbers.items():
        lines.append(
            f"  {name:8} median {of['median']:8.2f}   min {of['min']:8.2f}   max {of['max']:8.2f}"
        )
    return "\n".join(lines)


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--model", default="blockdiag", help="ours: a registered model")
    parser.add_argument("--rounds", type=int, default=5, help="at least 3")
    parser.add_argument("--seconds", type=float, default=5.0, help="per side and round")
    parser.add_argument("--warm-up", type=int, default=2, help="untimed updates of either side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scan", choices=list(SCANS), default="loop", help="the released step's")
    parser.add_argument("--compile", action="store_true", help="torch.compile the released step")
    parser.add_argument(
        "--write", action="store_true", help="write results/update_speed_MODEL[_compiled].json"
    )
    return parser.parse_args(words)


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
        measured = compare(released, ours, options.rounds, options.seconds, options.warm_up)
        numbers = summary(measured)
        tasks[task] = {"summary": numbers, "seconds": measured.seconds}
        print(printed(task, numbers), flush=True)
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = "training updates per second, released step against ours"
        compiled = "_compiled" if options.compile else ""
        keep(
            RESULTS / f"update_speed_{options.model}{compiled}.json",
            what,
            settings,
            {"tasks": tasks},
        )


if __name__ == "__main__":
    main()
