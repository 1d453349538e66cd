"""Training of `ebt_grc` on a batch: the plain reference against two passes, in turn.

    python -m benchmarks.two_pass_speed [--length 100] [--batch 128] [--width 128] [--write]

Forward and backward of the encoder alone, with noise and dropout, on strings of one length. The
reference is the released form: all vectors are moved and all pairs scored at each step, and
autograd goes back through all of it; at the default size it needs about 7 GB. What both compute is
compared first, in float64 on a few strings, from one state of a generator.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from lrbench.bench.timing import alternate, keep
from lrbench.encoders.trees.ebt_grc import EbtGrc, EbtGrcConfig
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
COMPARED = 4  # strings
WAYS = ("reference", "forward")


def sides(batch: int, length: int, width: int) -> dict[str, Callable[[], Tensor]]:
    """Return what does forward and backward of a batch, by the name of the way."""
    torch.manual_seed(0)
    encoder = EbtGrc(EbtGrcConfig(), width)
    x = torch.randn(batch, length, width)
    mask = torch.ones(batch, length, dtype=torch.bool)

    def call(way: str) -> Tensor:
        encoder.zero_grad(set_to_none=True)
        y: Tensor = getattr(encoder, way)(x, mask, torch.Generator().manual_seed(0))
        y.square().sum().backward()
        return y.detach()

    return {way: lambda way=way: call(way) for way in WAYS}  # type: ignore[misc]


@torch.no_grad()
def difference(length: int, width: int) -> float:
    """Return the largest difference of the two ways on some strings, in training, in float64."""
    torch.manual_seed(0)
    encoder = EbtGrc(EbtGrcConfig(), width).double()
    x = torch.randn(COMPARED, length, width, dtype=torch.float64)
    mask = torch.ones(COMPARED, length, dtype=torch.bool)
    found = [getattr(encoder, way)(x, mask, torch.Generator().manual_seed(0)) for way in WAYS]
    return float((found[0] - found[1]).abs().max())


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, value in (("length", 100), ("batch", 128), ("width", 128), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round, at least")
    parser.add_argument("--write", action="store_true", help="write results/two_pass_speed.json")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Compare, measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    apart = difference(options.length, options.width)
    calls = sides(options.batch, options.length, options.width)
    measured = alternate(calls, options.rounds, options.seconds)
    ratios = measured.ratios("reference", "forward")
    times = {way: measured.time(way) for way in WAYS}
    print(
        f"length {options.length}, batch {options.batch}, d = {options.width}: reference"
        f" {times['reference']:.2f} s, two passes {times['forward']:.2f} s, ratio"
        f" {measured.ratio('reference', 'forward'):.1f} ({min(ratios):.1f}..{max(ratios):.1f});"
        f" results differ by {apart:.0e}"
    )
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = "seconds of forward and backward of ebt_grc, plain reference against two passes"
        content = {"seconds": measured.seconds, "difference": apart}
        keep(RESULTS / "two_pass_speed.json", what, settings, content)


if __name__ == "__main__":
    main()
