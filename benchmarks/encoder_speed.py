"""Training updates of encoders on ListOps: whole batches against halves on two cores.

    python -m benchmarks.encoder_speed [--models ebt_grc ordered_memory] [--rounds 20] [--write]

Both sides train by the paper's protocol, `rir2023`, from the same weights on the same batches. A
round is an update of either: on one thread, then with `protocol.parts=2 threads=2`. Early updates
are timed. Later ones of `ordered_memory` and `crvnn` are faster: trained, they compute fewer slots
and steps. `--whole` leaves the halves out. It needs the strings: `lrbench data make listops`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import torch

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.cli.hydra.compose import composed
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.memory import keep_freed_memory
from lrbench.training.procedure import make_trial

KEPT = Path(__file__).resolve().parent / "results" / "encoder_speed.json"
MODELS = ("ebt_grc", "rir_ebt_grc", "ordered_memory", "crvnn")
SETTINGS = ("protocol=rir2023", "task=listops", "protocol.train_split=train")
SIDES = {"whole": ("threads=1",), "halves": ("protocol.parts=2", "threads=2")}


def measure(model: str, sides: list[str], rounds: int) -> tuple[Rounds, int]:
    """Return the seconds of updates by side, and how many updates an epoch has."""
    trials: dict[str, Any] = {
        side: make_trial(composed([*SETTINGS, f"model={model}", *SIDES[side]]), 0) for side in sides
    }
    updates: int = next(iter(trials.values())).updates_per_epoch
    return alternate({side: trial.update for side, trial in trials.items()}, rounds, 0), updates


def row(measured: Rounds, updates: int) -> dict[str, Any]:
    """Return seconds an update, minutes an epoch, and what halves take of the time of the whole."""
    found: dict[str, Any] = {"updates an epoch": updates}
    for side, seconds in measured.seconds.items():
        found[side] = {
            "seconds an update": round(median(seconds), 3),
            "minutes an epoch": round(sum(seconds) / len(seconds) * updates / 60, 1),
        }
    if "halves" in measured.seconds:
        shares = measured.ratios("halves", "whole")
        of_all = sum(measured.seconds["halves"]) / sum(measured.seconds["whole"])
        found["share"] = {
            "of all": round(of_all, 2),
            "least": round(min(shares), 2),
            "most": round(max(shares), 2),
        }
    return found


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=20, help="updates of either side")
    parser.add_argument("--whole", action="store_true", help="no halves")
    parser.add_argument("--write", action="store_true", help=f"keep the numbers in {KEPT.name}")
    options = parser.parse_args(words)
    sides = ["whole"] if options.whole else list(SIDES)
    torch.set_num_threads(1)  # a process of halves has one as well
    keep_freed_memory()
    models = {}
    with run_arithmetic():
        for model in options.models:
            measured, updates = measure(model, sides, options.rounds)
            models[model] = row(measured, updates) | {"seconds": measured.seconds}
            print(model, {key: one for key, one in models[model].items() if key != "seconds"})
    if options.write:
        chosen = {key: value for key, value in vars(options).items() if key != "write"}
        keep(KEPT, "training updates of encoders on ListOps", chosen, {"models": models})


if __name__ == "__main__":
    main()
