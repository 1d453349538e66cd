"""An update of every mixer at the suite's size: 64 strings of up to 40 symbols, width 64, one core.

    python -m benchmarks.suite_speed [--rounds 5] [--seconds 0.3] [--models lstm,mamba] [--write]
    python -m benchmarks.suite_speed --device cuda

Each is one layer in its usual stack under `suite_v1` on S3, as `lrbench sweep --table suite_v1`
trains it. The whole search of a model on twelve automata is 72,000 updates, its runs are 180,000.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import torch

from lrbench.bench.timing import alternate, keep
from lrbench.cli.hydra.compose import composed
from lrbench.registry import FOREIGN, MIXERS
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.procedure import make_trial
from lrbench.training.trial import Trial

RESULTS = Path(__file__).resolve().parent / "results"
COMMON = ("protocol=suite_v1", "task=group", "task.group=S3", "task.letters=all")
UPDATES = 12 * (3 * 2000 + 3 * 5000)  # of a model in the suite


def trial_of(model: str, device: str = "cpu") -> Trial:
    """Return a run of one layer of a mixer, width 64, at its beginning."""
    config = composed([*COMMON, f"model={model}", "model.width=64", "model.layers=1"])
    return make_trial(config, 0, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--models", default=",".join(n for n in MIXERS.names() if n != FOREIGN))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--write", action="store_true", help="keep it in benchmarks/results/")
    told = parser.parse_args()
    torch.set_num_threads(1)
    trials = {name: trial_of(name, told.device) for name in told.models.split(",")}
    calls = {name: trial.update for name, trial in trials.items()}
    with run_arithmetic():
        rounds = alternate(calls, told.rounds, told.seconds)
    times = {name: 1e3 * rounds.time(name) for name in calls}
    print(f"{'model':22s} {'ms':>6s} {'to lstm':>8s} {'parameters':>11s} {'suite, hours':>13s}")
    for name, ms in sorted(times.items(), key=lambda pair: pair[1]):
        against = f"{rounds.ratio(name, 'lstm'):.2f}" if "lstm" in times else "-"
        hours = ms * UPDATES / 3.6e6
        print(f"{name:22s} {ms:6.1f} {against:>8s} {trials[name].parameters:11,d} {hours:13.1f}")
    print(f"median of {len(times)} mixers: {median(times.values()):.1f} ms")
    if told.write:
        what = "milliseconds of an update of one layer of each mixer, under suite_v1 on S3"
        content = {
            "milliseconds": {name: round(ms, 2) for name, ms in times.items()},
            "to_lstm": {name: round(rounds.ratio(name, "lstm"), 2) for name in times},
            "median": round(median(times.values()), 2),
        }
        name = "suite_speed.json" if told.device == "cpu" else f"suite_speed_{told.device}.json"
        keep(RESULTS / name, what, vars(told), content)


if __name__ == "__main__":
    main()
