"""What a group of trials costs against one, and what of an update is data, of a run a look.

    python -m benchmarks.group_speed [--tasks sum even_pair mod_arith] [--trials 5] [--write]

A group is timed as a user runs it: `lrbench train trials=K` for some updates, without looks, from
its start to its results, against `lrbench train`, in turn. Of a trial by itself are told, as
multiples of an update, the drawing of an update's strings and the scoring of a look's 128 strings
at the test length. All are medians over rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.memory import keep_freed_memory
from lrbench.training.scoring import score

RESULTS = Path(__file__).resolve().parent / "results"
UPDATES = {"sum": 3000, "even_pair": 3000, "mod_arith": 250}  # some twenty seconds each
SHORT = (  # training is what is timed: one look at the end, and next to no examination
    *("protocol.stop=never", "protocol.look_every=1000000", "protocol.validation_size=16"),
    *("protocol.look_size=16", "protocol.test_size=16", "protocol.further_lengths=[]"),
    "protocol.certify=never",
)


def command(task: str, model: str, trials: int, device: str) -> None:
    """Train `trials` seeds from nothing to their results."""
    words = [f"task={task}", f"model={model}", f"trials={trials}", f"device={device}", *SHORT]
    with tempfile.TemporaryDirectory() as folder:
        words += [f"protocol.max_steps={UPDATES[task]}", f"output_dir={folder}"]
        program = [sys.executable, "-m", "lrbench", "train", *words]
        subprocess.run(program, check=True, capture_output=True)


def groups(task: str, model: str, trials: int, device: str) -> dict[str, Callable[[], object]]:
    """Return the two commands."""
    return {
        "one": lambda: command(task, model, 1, device),
        "group": lambda: command(task, model, trials, device),
    }


def parts(task: str, model: str, device: str) -> dict[str, Callable[[], object]]:
    """Return an update of a trial, the drawing of its strings, and the scoring of a look."""
    config = composed([f"task={task}", f"model={model}"])
    alone, drawn = LengthTrial(config, 0, device), LengthTrial(config, 0, device)
    protocol = config.protocol
    length = protocol.test_lengths[0]

    def draw() -> None:
        drawn.step += 1
        drawn.batch(drawn.step)

    def look() -> None:
        stream = alone.stream("look", length, 0)
        score(alone.model, alone.task, stream, length, protocol.look_size, alone.device)

    return {"update": alone.update, "data": draw, "look": look}


def summary(task: str, trials: int, group: Rounds, part: Rounds) -> str:
    """Return the line a person reads about one task."""
    ratios = group.ratios("group", "one")
    return (
        f"{task:10} one update {1e3 * part.time('update'):7.2f} ms"
        f"   {trials} trials {group.ratio('group', 'one'):5.2f} x one"
        f" ({min(ratios):.2f}..{max(ratios):.2f})"
        f"   data {part.ratio('data', 'update'):6.1%}   look {part.ratio('look', 'update'):5.1f}"
    )


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=list(UPDATES), default=list(UPDATES))
    parser.add_argument("--model", default="blockdiag")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3, help="at least 3")
    parser.add_argument("--seconds", type=float, default=0.5, help="per part and round")
    parser.add_argument("--write", action="store_true", help="write results/group_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    tasks: dict[str, Any] = {}
    for task in options.tasks:
        part = alternate(
            parts(task, options.model, options.device), options.rounds, options.seconds
        )
        calls = groups(task, options.model, options.trials, options.device)
        group = alternate(calls, options.rounds, 0.0)
        tasks[task] = {**part.seconds, **group.seconds}
        print(summary(task, options.trials, group, part), flush=True)
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        keep(RESULTS / "group_speed.json", "groups of trials", settings, {"tasks": tasks})


if __name__ == "__main__":
    main()
