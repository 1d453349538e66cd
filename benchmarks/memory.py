"""Memory against length: of training updates (linear), of an examination (flat).

    python -m benchmarks.memory [--tasks sum "group group=S3"] [--model blockdiag] [--write NAME]
    python -m benchmarks.memory --tasks parity --model mamba slstm --sides examination --strings 8

Each number is what a process of its own adds to its resident memory at the peak: over its size
with the model built, of some updates on strings of a length, or of scoring
some strings of a length (`--strings`, 128).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from lrbench.bench.timing import keep
from lrbench.bench.updates import peak_of
from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.tasks import make_task
from lrbench.training.memory import PeakMemory
from lrbench.training.scoring import score

RESULTS = Path(__file__).resolve().parent / "results"
MIB = 2**20
TRAINED = (40, 80, 160, 320, 640)
EXAMINED = (500, 5_000, 50_000, 100_003)
STRINGS = 128


def task_of(words: str) -> list[str]:
    """Return the overrides of a task: its name, with settings after it, as in `group group=S3`."""
    name, *settings = words.split()
    return [f"task={name}", *(f"task.{setting}" for setting in settings)]


def valid(task: str, length: int) -> int:
    """Return the nearest length that a task has."""
    return make_task(composed(task_of(task)).task).nearest_length(length)


def training(task: str, model: str) -> dict[int, float]:
    """Return MiB that updates need, by length."""
    found = {}
    for length in TRAINED:
        at = valid(task, length)
        words = [*task_of(task), f"model={model}", f"protocol.train_length={at}"]
        beyond = f"protocol.band=[{at + 2},{at + 4}]"
        longer = f"protocol.test_lengths=[{at + 2}]"
        found[at] = peak_of(composed([*words, beyond, longer])) / MIB
    return found


def examination(
    task: str, model: str, lengths: Sequence[int] = EXAMINED, strings: int = STRINGS
) -> dict[int, float]:
    """Return MiB that scoring needs, by length.

    The processes give freed memory of 64 KiB and more back at once. By default glibc keeps up to
    32 MiB blocks for later, which looks like 20 MiB more at 100,003 symbols than at 20,003.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)  # read when a process starts
    context = get_context("spawn")
    found = {}
    for length in lengths:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            at = valid(task, length)
            found[at] = pool.submit(examined, task, model, at, strings).result()
    return found


def examined(task: str, model: str, length: int, strings: int = STRINGS) -> float:
    """Return MiB that scoring `strings` strings adds to this process."""
    torch.set_num_threads(1)
    trial = LengthTrial(composed([*task_of(task), f"model={model}"]), 0)
    shortest = valid(task, EXAMINED[0])
    score(trial.model, trial.task, trial.stream("test", 0), shortest, strings, trial.device)
    with PeakMemory(trial.device) as before:
        pass
    with PeakMemory(trial.device) as peak:
        stream = trial.stream("test", length)
        score(trial.model, trial.task, stream, length, strings, trial.device)
    return peak.mib - before.mib


SIDES = ("training", "examination")


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the numbers, after each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=["sum", "even_pair", "mod_arith"])
    parser.add_argument("--model", nargs="+", default=["blockdiag"])
    parser.add_argument("--strings", type=int, default=STRINGS, help="that are scored")
    parser.add_argument("--lengths", type=int, nargs="+", default=EXAMINED, help="of those")
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES)
    parser.add_argument("--write", metavar="NAME", help="write results/NAME.json")
    options = parser.parse_args(words)
    models: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    for model in options.model:
        for task in options.tasks:
            found = models.setdefault(model, {}).setdefault(task, {})
            for side in options.sides:
                if side == "examination":
                    found[side] = examination(task, model, options.lengths, options.strings)
                else:
                    found[side] = training(task, model)
                measured = (f"{at}: {mib:.1f} MiB" for at, mib in found[side].items())
                print(f"{model:18} {task:18} {side:12}", *measured, flush=True)
        if options.write:
            path = RESULTS / f"{options.write}.json"
            keep(path, "memory against length", vars(options), {"models": models})


if __name__ == "__main__":
    main()
