"""sLSTM and mLSTM on one core: updates of our layers against those of the authors' xlstm.

    python -m benchmarks.xlstm_speed [--rounds 7] [--seconds 0.5] [--write]

One call is forward, backward and Adam for 64 strings of 40 at width 64, four heads, from the same
weights. Theirs is the plain torch code of the extra `oracles` (tests/oracles/test_xlstm.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.delta_speed import lines
from lrbench.bench.timing import alternate, keep
from lrbench.errors import UserError
from lrbench.mixers.foreign.twins import MAKERS
from lrbench.registry import MIXERS

RESULTS = Path(__file__).resolve().parent / "results"
STRINGS, LENGTH, WIDTH = 64, 40, 64
LAYERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "slstm": ("slstm", "sLSTM", {"num_heads": 4, "conv1d_kernel_size": 0, "backend": "vanilla"}),
    "mlstm": ("mlstm", "mLSTM", {"num_heads": 4, "conv1d_kernel_size": 4}),
}


def layers() -> dict[str, tuple[nn.Module, nn.Module]]:
    """Return ours and theirs by name; UserError where xlstm is not installed."""
    if find_spec("xlstm") is None:
        raise UserError("xlstm is not installed: pip install xlstm mlstm_kernels")
    found = {}
    for name, (folder, prefix, args) in LAYERS.items():
        torch.manual_seed(0)
        module = import_module(f"xlstm.blocks.{folder}.layer")
        config = getattr(module, f"{prefix}LayerConfig")
        more = {"context_length": LENGTH} if name == "mlstm" else {}
        theirs = getattr(module, f"{prefix}Layer")(config(embedding_dim=WIDTH, **args, **more))
        made = MAKERS[f"{module.__name__}.{prefix}Layer"](args, theirs)
        assert not isinstance(made, str), made
        settings, weights = made
        entry = MIXERS.get(name)
        ours = entry.cls(entry.config(**settings), WIDTH)
        with torch.no_grad():
            copied = weights(dict(theirs.named_parameters()))
            ours.load_state_dict({key: value.clone() for key, value in copied.items()})
        found[name] = ours, theirs
    return found


def inputs() -> Tensor:
    """Return (64, 40, 64) random numbers."""
    return torch.randn(STRINGS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0))


def output(layer: nn.Module, u: Tensor) -> Tensor:
    """Return y of either side; ours also returns a state."""
    y = layer(u)
    result: Tensor = y[0] if isinstance(y, tuple) else y
    return result


def check(pairs: dict[str, tuple[nn.Module, nn.Module]]) -> None:
    """Refuse to time layers that do not compute the same."""
    u = inputs()
    for name, (ours, theirs) in pairs.items():
        torch.testing.assert_close(output(ours, u), output(theirs, u), rtol=1e-3, atol=1e-4)
        print(f"{name}: ours and theirs compute the same")


def update(layer: nn.Module) -> Callable[[], None]:
    """Return a call of one update."""
    u, optimiser = inputs(), torch.optim.Adam(layer.parameters(), 1e-4)

    def call() -> None:
        optimiser.zero_grad()
        output(layer, u).square().mean().backward()
        optimiser.step()

    return call


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="at least 3")
    parser.add_argument("--seconds", type=float, default=0.5, help="per side and round")
    parser.add_argument("--write", action="store_true", help="write results/xlstm_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    pairs, content = layers(), {}
    check(pairs)
    for name, (ours, theirs) in pairs.items():
        sides = {f"{name}, ours": update(ours), f"{name}, theirs": update(theirs)}
        measured = alternate(sides, options.rounds, options.seconds)
        print("\n".join(lines(measured, f"{name}, ours")))
        content[name] = measured.seconds
    if options.write:
        settings = {"rounds": options.rounds, "seconds": options.seconds, "threads": 1}
        keep(RESULTS / "xlstm_speed.json", "seconds of an update of a layer", settings, content)


if __name__ == "__main__":
    main()
