"""The fused block-diagonal scan against a copy of as many bytes, on a GPU.

    python -m benchmarks.fused_bandwidth [--length 512 --batch 1024 --heads 8 --size 8] [--write]

The least a scan can do is to read its operands once and write its results once: forward, blocks and
inputs in and states out; backward, blocks, states and their gradient in and the gradients of blocks
and inputs out. How long that takes is measured by copying a tensor of half as many bytes, which
reads half of them and writes the other half. One round times everything in turn; a ratio is of one
round. Nothing but the kernels is timed: launches queue up, and the clock waits for the last.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.scan import BlockDiagonal, scan
from lrbench.scan.algorithms.fused import fits

RESULTS = Path(__file__).resolve().parent / "results"
LAUNCHES = 10  # before the clock waits: what python takes for one is hidden behind those before
PAIRS = {"forward": "copy as forward", "forward and backward": "copy as both"}


def bytes_of(shape: tuple[int, int, int, int], width: int) -> dict[str, int]:
    """Return the bytes that each direction has to read and write, of numbers of `width` bytes."""
    length, batch, heads, size = shape
    vectors = length * batch * heads * size
    forward = vectors * size + 2 * vectors
    backward = 2 * vectors * size + 3 * vectors
    return {"forward": forward * width, "forward and backward": (forward + backward) * width}


def operands(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> list[Tensor]:
    """Return blocks, inputs, x_0 and a gradient of the states; blocks are scaled not to grow."""
    length, batch, heads, size = shape
    blocks = torch.randn(batch, length, heads, size, size, dtype=dtype, device=device)
    blocks /= 2 * size**0.5
    inputs, gradient = (torch.randn_like(blocks[..., 0]) for _ in range(2))
    return [blocks, inputs.contiguous(), inputs[:, 0].clone(), gradient.contiguous()]


def calls(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> dict[str, Callable]:
    """Return what is timed, by name: LAUNCHES of each."""
    blocks, inputs, initial, gradient = operands(shape, dtype, device)
    leaves = [leaf.clone().requires_grad_() for leaf in (blocks, inputs, initial)]

    def forward() -> None:
        scan(BlockDiagonal(blocks), inputs, initial, "fused")

    def both() -> None:
        states = scan(BlockDiagonal(leaves[0]), leaves[1], leaves[2], "fused")
        torch.autograd.grad(states, leaves, gradient)

    made: dict[str, Callable] = {"forward": forward, "forward and backward": both}
    for name, size in bytes_of(shape, dtype.itemsize).items():
        source = torch.zeros(size // 2, dtype=torch.uint8, device=device)
        made[PAIRS[name]] = partial(source.clone().copy_, source)
    return {name: repeated(call, device) for name, call in made.items()}


def repeated(call: Callable[[], object], device: str) -> Callable[[], None]:
    """Return LAUNCHES calls and a wait for the last to end."""

    def run() -> None:
        for _ in range(LAUNCHES):
            call()
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def summary(measured: Rounds, amounts: dict[str, int]) -> dict[str, dict[str, float]]:
    """Return seconds, GB/s and the ratio to a copy, of each direction; medians over rounds."""
    found = {}
    for name, copy in PAIRS.items():
        seconds = measured.time(name) / LAUNCHES
        found[name] = {
            "milliseconds": 1e3 * seconds,
            "copy milliseconds": 1e3 * measured.time(copy) / LAUNCHES,
            "GB/s": amounts[name] / seconds / 1e9,
            "times the copy": median(measured.ratios(name, copy)),
        }
    return found


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("length", 512), ("batch", 1024), ("heads", 8), ("size", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--rounds", type=int, default=5, help="at least 3")
    parser.add_argument("--seconds", type=float, default=0.5, help="per call and round")
    parser.add_argument("--write", action="store_true", help="write results/fused_bandwidth.json")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    if not torch.cuda.is_available():
        raise SystemExit(
            "fused_bandwidth: no GPU here, and there is nothing to measure without one"
        )
    shape = options.length, options.batch, options.heads, options.size
    dtype = getattr(torch, options.dtype)
    blocks, inputs, initial, _ = operands((1, 1, *shape[2:]), dtype, "cuda")
    if not fits(BlockDiagonal(blocks), inputs, initial):
        raise SystemExit("fused_bandwidth: no kernel fits; see lrbench.scan.fused.fits")
    measured = alternate(calls(shape, dtype, "cuda"), options.rounds, options.seconds)
    amounts = bytes_of(shape, dtype.itemsize)
    found = summary(measured, amounts)
    print(torch.cuda.get_device_name())
    for name, numbers in found.items():
        print(f"  {name:20}  " + "   ".join(f"{key} {n:.3f}" for key, n in numbers.items()))
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        content = {"summary": found, "bytes": amounts, "seconds": measured.seconds}
        what = "fused block-diagonal scan against a copy of as many bytes"
        keep(RESULTS / "fused_bandwidth.json", what, {**settings, "launches": LAUNCHES}, content)


if __name__ == "__main__":
    main()
