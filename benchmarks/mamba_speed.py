"""Mamba's layer on one core against mambapy's with the same weights, and updates of the family.

    python -m benchmarks.mamba_speed [--rounds 5] [--seconds 1] [--write]

One call is forward and backward of one layer of width 64 on 64 strings of 40. mambapy 1.2.0 is a
package of the extra `dev`. Updates are those of whole models at their defaults, task parity.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.delta_speed import lines
from lrbench.bench.timing import alternate, keep
from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.mixers.mamba.mamba import MambaConfig, MambaMixer
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.scan.diagonal.selective import MODES

RESULTS = Path(__file__).resolve().parent / "results"
STRINGS, LENGTH, WIDTH = 64, 40, 64
MODELS = {
    "mamba": [],
    "mamba [-1,1]": ["model.mixer.range=signed"],
    "mamba2": [],
    "mamba2 [-1,1]": ["model.mixer.range=signed"],
    "mamba3": [],
    "deltanet": [],
    "lstm": [],
}
Call = Callable[[], Any]
Layer = Callable[[Tensor], Tensor]


def their_layer(width: int, conv_size: int = 4) -> Any:
    """Return mambapy's layer of a seed; UserError where it is not installed."""
    if find_spec("mambapy") is None:
        raise UserError("mambapy is not installed: pip install --no-deps mambapy==1.2.0")
    module = import_module("mambapy.mamba")
    torch.manual_seed(0)
    settings = module.MambaConfig(d_model=width, n_layers=1, d_conv=conv_size, use_cuda=False)
    return module.MambaBlock(settings)


@torch.no_grad()
def copied(theirs: Any, config: MambaConfig, width: int) -> MambaMixer:
    """Return our layer with the weights of theirs, whose A and D are kept (E, N)."""
    ours = MambaMixer(config, width)
    ours.project.weight.copy_(theirs.in_proj.weight)
    assert ours.convolution is not None and ours.convolution.bias is not None
    ours.convolution.weight.copy_(theirs.conv1d.weight[:, 0])
    ours.convolution.bias.copy_(theirs.conv1d.bias)
    ours.selection.weight.copy_(theirs.x_proj.weight)
    ours.step_size.load_state_dict(theirs.dt_proj.state_dict())
    ours.log_rate.copy_(theirs.A_log.T)
    ours.skip.copy_(theirs.D)
    ours.out.weight.copy_(theirs.out_proj.weight)
    return ours


def layers(width: int = WIDTH) -> dict[str, Layer]:
    """Return what is compared: maps of (64, 40, width)."""
    theirs = their_layer(width)
    ours = copied(theirs, MambaConfig(), width)
    found: dict[str, Layer] = {"mambapy": theirs}
    for mode in MODES:
        found[f"ours, {mode}"] = lambda u, mode=mode: ours(u, mode=mode)[0]  # type: ignore[misc]
    return found


def check(all_of_them: dict[str, Layer], width: int = WIDTH) -> None:
    """Refuse to time layers that do not compute the same."""
    u = inputs(width)
    expected = all_of_them["mambapy"](u)
    for name, layer in all_of_them.items():
        torch.testing.assert_close(layer(u), expected, rtol=1e-4, atol=1e-5, msg=name)


def inputs(width: int = WIDTH) -> Tensor:
    """Return u, (64, 40, width)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(STRINGS, LENGTH, width, generator=generator).requires_grad_()


def both_ways(layer: Layer) -> Call:
    """Return a call of forward and backward, to weights and inputs."""
    u = inputs()
    return lambda: layer(u).sum().backward()


def updates() -> dict[str, Call]:
    """Return a training update of each model."""
    words = ["task=parity", f"protocol.batch_size={STRINGS}", f"model.width={WIDTH}"]
    words.append(f"protocol.train_length={LENGTH}")
    return {
        name: LengthTrial(composed([*words, f"model={name.split()[0]}", *more]), 0).update
        for name, more in MODELS.items()
    }


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="at least 3")
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round")
    parser.add_argument("--write", action="store_true", help="write results/mamba_speed.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    compared = layers()
    check(compared)
    calls = {name: both_ways(layer) for name, layer in compared.items()}
    layer_times = alternate(calls, options.rounds, options.seconds)
    print("\n".join(lines(layer_times, "ours, sequential")))
    whole = alternate(updates(), options.rounds, options.seconds)
    print("\n".join(lines(whole, None)))
    if options.write:
        settings = {"rounds": options.rounds, "seconds": options.seconds, "threads": 1}
        what = "seconds of Mamba's layer, forward and backward, and of updates"
        content = {"layer": layer_times.seconds, "updates": whole.seconds}
        keep(RESULTS / "mamba_speed.json", what, settings, content)


if __name__ == "__main__":
    main()
