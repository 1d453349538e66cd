"""The matrix products of an update alone: what no arrangement of the rest of it can go below.

    python -m benchmarks.product_floor [--tasks mod_arith] [--model blockdiag_release] [--write]
    python -m benchmarks.product_floor --encoders ordered_memory crvnn [--write]

One of our updates is watched, and each of its products of matrices is noted down: which operation,
the sizes of its operands and how they lie in memory. `products` then makes these products one after
the other, on random numbers, and nothing else. It takes turns with the released step
(`released_step.py`) and with our update; every second round goes the other way round. The released
step over `products` is the largest ratio that an update with these products could reach.

Of an encoder an update is a batch of ListOps strings of one range of lengths, forward and backward;
there is no released step, and our update over `products` is what it could gain at most.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.released_step import RECIPES, ReleasedStep
from benchmarks.update_speed import Update, our_update
from lrbench.bench.timing import Call, Rounds, alternate, keep
from lrbench.bench.tree_speed import drawn as drawn_strings
from lrbench.models.build import build_model
from lrbench.tasks.listops.expressions import DIGITS, VOCABULARY
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
PRODUCTS = (
    "mm",
    "addmm",
    "addmm_",
    "bmm",
    "baddbmm",
    "baddbmm_",
    "mv",
    "addmv",
    "_linear_pointwise",
)
Noted = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Watched(TorchDispatchMode):
    """Products that are made while this is entered: the operation, and operands like its own."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Noted] = []
        self.multiplications = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in PRODUCTS:
            like = {key: alike(value) for key, value in kwargs.items()}
            self.products.append((func, tuple(map(alike, args)), like))
        result = func(*args, **kwargs)
        if func.overloadpacket.__name__ in PRODUCTS:
            self.multiplications += result.numel() * inner_size(args)
        return result


def alike(value: Any) -> Any:
    """Return random numbers that lie in memory as a tensor does; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).normal_()


def inner_size(args: tuple[Any, ...]) -> int:
    """Return over how many numbers a product sums: those of a row of its last operand but one."""
    matrices = [value for value in args if isinstance(value, Tensor) and value.dim() > 1]
    return int(matrices[-2 if len(matrices) > 1 else -1].shape[-1])


def products_of(update: Update) -> tuple[Call, int, int]:
    """Return what makes the products of an update, how many there are, and multiplications."""
    with Watched() as watched:
        update()

    def products() -> None:
        for func, args, kwargs in watched.products:
            func(*args, **kwargs)

    return products, len(watched.products), watched.multiplications


def compare(sides: dict[str, Call], rounds: int, seconds: float) -> Rounds:
    """Time the sides in turn, every second round the other way round."""
    found = Rounds({name: [] for name in sides})
    for way in (sides, dict(reversed(sides.items()))):
        half = alternate(way, rounds, seconds)
        for name in sides:
            found.seconds[name] += half.seconds[name]
    return found


def told(measured: Rounds) -> str:
    """Return a line for each side but the first: how many times as long the first one takes."""
    base, *others = measured.seconds
    lines = [f"  {base:19} {measured.time(base) * 1e3:.1f} ms"]
    for side in others:
        ratios = sorted(measured.ratios(base, side))
        between = f"{measured.ratio(base, side):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
        lines.append(f"  {base} / {side:8} {between}, {measured.time(side) * 1e3:.1f} ms")
    return "\n".join(lines)


def reading(encoder: str, lengths: range, strings: int) -> Update:
    """Return an update of an encoder at its table's settings but for the optimiser's step."""
    from lrbench.cli.hydra.compose import composed

    config = composed(["task=listops", f"model={encoder}"])
    model = build_model(config, len(VOCABULARY), DIGITS, 0)
    drawn = drawn_strings(lengths, strings)
    sizes = torch.tensor([len(string) for string in drawn])
    tokens = pad_sequence(drawn, batch_first=True)
    labels = torch.zeros(len(drawn), dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)

    def update() -> None:
        model.zero_grad(set_to_none=True)
        cross_entropy(model(tokens, sizes, generator), labels).backward()

    return update


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--encoders", nargs="+", metavar="NAME", help="these instead of tasks")
    parser.add_argument("--lengths", default="40-80", help="of an encoder's strings")
    parser.add_argument("--strings", type=int, default=64, help="of an encoder's batch")
    parser.add_argument("--tasks", nargs="+", choices=list(RECIPES), default=["mod_arith"])
    parser.add_argument("--model", default="blockdiag_release", help="ours: a registered model")
    parser.add_argument("--rounds", type=int, default=4, help="in each order, at least 3")
    parser.add_argument("--seconds", type=float, default=2.0, help="per side and round")
    parser.add_argument("--write", action="store_true", help="write results/product_floor.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    keep_freed_memory()
    found = {}
    for name in options.encoders or options.tasks:
        released: dict[str, Call] = {}
        if options.encoders:
            low, high = map(int, options.lengths.split("-"))
            ours = reading(name, range(low, high + 1), options.strings)
        else:
            ours = our_update(name, options.model, 0)
            released["released"] = ReleasedStep(name).update
        ours()
        products, count, multiplications = products_of(ours)
        sides = {**released, "ours": ours, "products": products}
        measured = compare(sides, options.rounds, options.seconds)
        rate = multiplications / measured.time("products") / 1e9
        print(f"{name}: {count} products, {multiplications / 1e9:.2f} G multiplications", end="")
        print(f" an update, {rate:.1f} G a second")
        print(told(measured))
        found[name] = {
            "products": count,
            "multiplications": multiplications,
            "seconds": measured.seconds,
        }
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        kind = "encoders" if options.encoders else "tasks"
        name = "product_floor_encoders" if options.encoders else "product_floor"
        what = "the released step, our update and its products alone"
        keep(RESULTS / f"{name}.json", what, settings, {kind: found})


if __name__ == "__main__":
    main()
