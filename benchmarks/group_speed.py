"""What a group of trials costs against one, and what of an update is data, of a run a look.

    python -m benchmarks.group_speed [--tasks sum even_pair mod_arith] [--trials 5] [--write]

Each round times an update of one trial, of the group (side by side on the cores there are), the
drawing of an update's strings, and the scoring of a look's 128 strings at the test length. What is
told are multiples of the one update, medians over rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.cli.planning import composed
from lrbench.training.members import members_for
from lrbench.training.memory import keep_freed_memory
from lrbench.training.scoring import score
from lrbench.training.trial import Trial

RESULTS = Path(__file__).resolve().parent / "results"
TASKS = ("sum", "even_pair", "mod_arith")


def parts(task: str, model: str, trials: int, device: str) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    config = composed([f"task={task}", f"model={model}", f"trials={trials}"])
    alone = Trial(config, 0, device)
    group = [Trial(config, seed, device) for seed in range(trials)]
    members = members_for(group, print)
    drawn = Trial(config, 0, device)
    protocol = config.protocol
    length = protocol.test_lengths[0]

    def draw() -> None:
        drawn.step += 1
        drawn.batch(drawn.step)

    def look() -> None:
        stream = alone.stream("look", length, 0)
        score(alone.model, alone.task, stream, length, protocol.look_size, alone.device)

    return {
        "one": alone.update,
        "group": lambda: members.update(group),
        "data": draw,
        "look": look,
    }


def told(task: str, trials: int, measured: Rounds) -> str:
    """Return the line a person reads about one task."""
    low, high = min(measured.ratios("group", "one")), max(measured.ratios("group", "one"))
    return (
        f"{task:10} one update {1e3 * measured.time('one'):7.2f} ms"
        f"   {trials} together {measured.ratio('group', 'one'):5.2f} ({low:.2f}..{high:.2f})"
        f"   data {measured.ratio('data', 'one'):6.1%}   look {measured.ratio('look', 'one'):5.1f}"
    )


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--model", default="blockdiag")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=9, help="at least 3")
    parser.add_argument("--seconds", type=float, default=0.5, help="per part and round")
    parser.add_argument("--write", action="store_true", help="write results/group_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    tasks: dict[str, Any] = {}
    for task in options.tasks:
        calls = parts(task, options.model, options.trials, options.device)
        measured = alternate(calls, options.rounds, options.seconds)
        tasks[task] = measured.seconds
        print(told(task, options.trials, measured), flush=True)
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        keep(RESULTS / "group_speed.json", "groups of trials", settings, {"tasks": tasks})


if __name__ == "__main__":
    main()
