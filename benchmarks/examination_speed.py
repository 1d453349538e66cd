"""The time of an examination of every mixer: 400 strings of 100,003 symbols on one core.

    python -m benchmarks.examination_speed [--lengths 1003 4003] [--models lstm,mamba] [--write]

Each is one layer of width 64 in its usual stack, as `lrbench evaluate` reads S3. Its state is
carried from piece to piece, so time is linear in the length: a line through the times of two
lengths foretells 100,003 (`--lengths 1003 100003` measures it). Times are the process's own, so
that other programs on the machine matter less. A transformer's time is not linear: it is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from benchmarks.suite_speed import trial_of
from lrbench.bench.timing import keep
from lrbench.registry import FOREIGN, MIXERS
from lrbench.tasks.stream import Stream
from lrbench.training.scoring import score
from lrbench.training.trial import Trial

RESULTS = Path(__file__).resolve().parent / "results"
STRINGS, FAR = 400, 100_003
QUADRATIC = ("transformer",)


def seconds_of(trial: Trial, length: int) -> float:
    """Return the processor's seconds of an examination at a length."""
    began = time.process_time()
    score(trial.model, trial.task, Stream.named(0, "examination"), length, STRINGS, "cpu")
    return time.process_time() - began


def foretold(lengths: Sequence[int], seconds: Sequence[float], length: int = FAR) -> float:
    """Return what a line through the first and the last length says of another."""
    slope = (seconds[-1] - seconds[0]) / (lengths[-1] - lengths[0])
    return seconds[0] + slope * (length - lengths[0])


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    named = ",".join(n for n in MIXERS.names() if n not in (FOREIGN, *QUADRATIC))
    parser.add_argument("--models", default=named)
    parser.add_argument("--lengths", type=int, nargs=2, default=[1003, 4003])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep it in benchmarks/results/")
    told = parser.parse_args(words)
    torch.set_num_threads(1)
    found = {}
    for name in told.models.split(","):
        trial = trial_of(name)
        seconds_of(trial, 40)  # what is compiled, or made once
        rounds = [[seconds_of(trial, n) for n in told.lengths] for _ in range(told.rounds)]
        seconds = [median(column) for column in zip(*rounds, strict=True)]
        far = median(foretold(told.lengths, both) for both in rounds)
        found[name] = {"seconds": [round(s, 3) for s in seconds], "foretold": round(far, 1)}
        print(
            f"{name:22s} {seconds[0]:7.2f} {seconds[1]:7.2f}  {far:8.1f} s at {FAR:,}", flush=True
        )
    slow = [name for name, row in found.items() if row["foretold"] > 60]
    print(f"over a minute: {', '.join(slow) or 'none'} of {len(found)}")
    if told.write:
        what = f"processor seconds of an examination of {STRINGS} strings, foretold at {FAR}"
        keep(RESULTS / "examination_speed.json", what, vars(told), {"models": found})


if __name__ == "__main__":
    main()
