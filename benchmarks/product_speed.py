"""Large products of matrices by torch's BLAS and by oneDNN: alone, and within models.

    python -m benchmarks.product_speed [--models blockdiag_release,blockdiag,rwkv4] [--write]

Alone: (M, K) times (K, N) of sizes around those from which oneDNN is taken. Within models: forward
and backward. Where `lrbench.kernels.products` leaves everything to torch (a processor of Intel's,
or one without AVX-512), the second side shows what would happen if it did not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from lrbench.bench.timing import Call, Rounds, alternate, keep
from lrbench.bench.updates import arithmetic_of
from lrbench.kernels import choice, products
from lrbench.kernels.choice import Means
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.memory import keep_freed_memory

SIZES = (  # M, K, N: below and above what `products` asks for, then those of blockdiag_release
    *((64, 64, 128), (64, 128, 128), (3, 1024, 1024), (4, 1024, 1024)),
    *((512, 65, 128), (448, 513, 128), (512, 448, 128), (64, 1024, 64), (2048, 512, 512)),
)
RESULTS = Path(__file__).resolve().parent / "results"


@contextmanager
def large_ones_by_onednn(faster: bool) -> Iterator[None]:
    """Let oneDNN multiply large matrices, or torch, whatever the processor."""
    before = choice.installed
    choice.installed = lambda by: faster if by is Means.ONEDNN else before(by)  # type: ignore[assignment]
    try:
        yield
    finally:
        choice.installed = before


def alone(m: int, k: int, n: int) -> dict[str, Call]:
    """Return both sides of one product by name."""
    a, b = torch.randn(m, k), torch.randn(k, n)

    return {"torch": lambda: torch.mm(a, b), "oneDNN": lambda: products._by_onednn(a, b)}


def sides(words: list[str]) -> dict[str, Call]:
    """Return both sides by name: the same model, the same strings."""
    from lrbench.cli.hydra.compose import composed

    arithmetic = arithmetic_of(LengthTrial(composed(words), seed=0))

    def side(faster: bool) -> Call:
        def call() -> None:
            with large_ones_by_onednn(faster):
                arithmetic()

        return call

    return {"torch": side(False), "oneDNN": side(True)}


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="mod_arith")
    parser.add_argument("--models", default="blockdiag_release,blockdiag,rwkv4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per side and round, at least")
    parser.add_argument("--write", action="store_true", help="write results/product_speed.json")
    return parser.parse_args(words)


def summary(what: str, measured: Rounds) -> str:
    """Return a line about what was measured."""
    ratios = measured.ratios("torch", "oneDNN")
    return (
        f"{what}: torch {1000 * measured.time('torch'):.3f} ms, oneDNN"
        f" {1000 * measured.time('oneDNN'):.3f} ms, ratio {measured.ratio('torch', 'oneDNN'):.2f}"
        f" ({min(ratios):.2f}..{max(ratios):.2f})"
    )


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        raise SystemExit("this torch has no oneDNN to compare with")
    torch.set_num_threads(1)
    keep_freed_memory()
    sizes, seconds = {}, {}
    for m, k, n in SIZES:
        measured = alternate(alone(m, k, n), options.rounds, options.seconds / 10)
        print(summary(f"({m}, {k}) x ({k}, {n})", measured))
        sizes[f"{m}x{k}x{n}"] = measured.seconds
    for model in options.models.split(","):
        calls = sides([f"task={options.task}", f"model={model}"])
        measured = alternate(calls, options.rounds, options.seconds)
        print(summary(f"{model} on {options.task}", measured))
        seconds[model] = measured.seconds
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = "seconds of products, and of forward and backward with them, by torch and by oneDNN"
        content = {"products": sizes, "seconds": seconds}
        keep(RESULTS / "product_speed.json", what, settings, content)


if __name__ == "__main__":
    main()
