"""Forward and backward with some subnormal weights: as they are, and with them taken for zero.

    python -m benchmarks.subnormal_speed [--task mod_arith] [--model blockdiag_release] [--write]

A share of every weight matrix is set to 1e-40, as weight decay leaves it after some thousand
updates (9 % of `blockdiag_release` on ModArith after 8,000). The third side has none: what is left
of the cost is what it costs to have them flushed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from lrbench.bench.timing import Call, alternate, keep
from lrbench.bench.updates import arithmetic_of
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.arithmetic import flushed
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
SUBNORMAL = 1e-40


def trial_with(share: float, words: list[str]) -> LengthTrial:
    """Return a trial a share of whose weights is subnormal."""
    from lrbench.cli.hydra.compose import composed

    trial = LengthTrial(composed(words), seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in trial.model.parameters():
            if weight.dim() > 1:
                chosen = torch.rand(weight.shape, generator=generator) < share
                weight.masked_fill_(chosen, SUBNORMAL)
    return trial


def sides(share: float, words: list[str]) -> dict[str, Call]:
    """Return the three sides by name."""
    some = arithmetic_of(trial_with(share, words))

    def with_flush() -> None:
        with flushed():
            some()

    return {"as they are": some, "flushed": with_flush, "none": arithmetic_of(trial_with(0, words))}


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="mod_arith")
    parser.add_argument("--model", default="blockdiag_release")
    parser.add_argument("--share", type=float, default=0.1, help="of every weight matrix")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round, at least")
    parser.add_argument("--write", action="store_true", help="write results/subnormal_speed.json")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    calls = sides(options.share, [f"task={options.task}", f"model={options.model}"])
    measured = alternate(calls, options.rounds, options.seconds)
    for other in ("flushed", "none"):
        ratios = measured.ratios("as they are", other)
        print(
            f"{options.model} on {options.task}, {options.share:.0%} subnormal: as they are"
            f" {measured.time('as they are'):.3f} s, {other} {measured.time(other):.3f} s, ratio"
            f" {measured.ratio('as they are', other):.1f} ({min(ratios):.1f}..{max(ratios):.1f})"
        )
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = "seconds of forward and backward with subnormal weights: as they are, flushed, none"
        keep(RESULTS / "subnormal_speed.json", what, settings, {"seconds": measured.seconds})


if __name__ == "__main__":
    main()
