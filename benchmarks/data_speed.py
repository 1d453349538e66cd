"""What drawing the strings of a task costs, against an update's arithmetic of an LSTM.

    python -m benchmarks.data_speed [--write]

128 strings of 40 symbols an update, drawn for twelve updates at once as training does, beside
forward and backward of torch's LSTM of width 64 on them. Data should be less than 5 % of that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from lrbench.bench.timing import Call, alternate, keep
from lrbench.bench.updates import arithmetic_of
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.tasks import make_task
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
BATCH, LENGTH, UPDATES = 128, 40, 12
TASKS = {
    "sum": [],
    "mod_arith": [],
    "mod_arith_ltr": [],
    "group S3": ["task.group=S3"],
    "group A5": ["task.group=A5"],
    "group S6": ["task.group=S6"],
    "dfa permutation": ["task.kind=permutation"],
    "dfa reset": ["task.kind=reset", "task.states=8", "task.letters=3"],
    "regular tomita_4": ["task.language=tomita_4"],
    "dyck": [],
    "flip_flop": [],
    "nnch_even_pairs": [],
    "nnch_modular_arithmetic": [],
    "nnch_parity_check": [],
    "nnch_cycle_navigation": [],
    "nnch_modular_arithmetic_brackets": [],
    "nnch_reverse_string": [],
    "nnch_stack_manipulation": [],
    "nnch_solve_equation": [],
    "nnch_duplicate_string": [],
    "nnch_missing_duplicate_string": [],
    "nnch_odds_first": [],
    "nnch_binary_addition": [],
    "nnch_binary_multiplication": [],
    "nnch_compute_sqrt": [],
    "nnch_bucket_sort": [],
    "xlstm_modular_arithmetic": [],
    "slice_modular_arithmetic": [],
}


def sides(name: str) -> dict[str, Call]:
    """Return the drawing of a task's strings for some updates, and an LSTM's update."""
    from lrbench.cli.hydra.compose import composed

    words = [f"task={name.partition(' ')[0]}", *TASKS[name], "model=lstm", "model.width=64"]
    length = make_task(composed(words).task).nearest_length(LENGTH)
    trial = LengthTrial(composed([*words, f"protocol.train_length={length}"]), seed=0)
    stream = trial.stream("train")

    def draw() -> None:
        trial.task.samples(stream, range(UPDATES), BATCH, length, "cpu")

    return {"draw": draw, "update": arithmetic_of(trial)}


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per side and round, at least")
    parser.add_argument("--write", action="store_true", help="write results/data_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    found = {}
    for name in TASKS:
        measured = alternate(sides(name), options.rounds, options.seconds)
        drawn, update = measured.time("draw") / UPDATES, measured.time("update")
        print(
            f"{name}: {drawn * 1000:.3f} ms an update, {drawn / update:.1%} of an LSTM's"
            f" {update * 1000:.1f} ms"
        )
        found[name] = dict(measured.seconds)
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = f"seconds: drawing for {UPDATES} updates; forward and backward of an LSTM"
        keep(RESULTS / "data_speed.json", what, settings, {"tasks": found})


if __name__ == "__main__":
    main()
