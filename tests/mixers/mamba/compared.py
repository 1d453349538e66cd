"""Mixers of the family with weights that are not those of the start, and their modes compared."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor

from lrbench.mixers.base import Mixer
from lrbench.registry import MIXERS

BATCH = 2


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator)


def made(name: str, width: int, seed: int = 0, **settings: Any) -> Mixer:
    """Return a mixer in float64 with all its weights moved, those that begin as zero, too."""
    entry = MIXERS.get(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mixer: Mixer = entry.cls(entry.config(**settings), width).double()
    return mixer


def moved(mixer: Mixer, seed: int = 5) -> Mixer:
    """Add noise to all trained weights, so that none is zero, and return the mixer."""
    with torch.no_grad():
        for k, weight in enumerate(mixer.parameters()):
            if weight.requires_grad:
                weight += draw(*weight.shape, seed=seed + k, scale=0.1)
    return mixer


def leaves_of(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else list(chain(*map(leaves_of, state)))


def results(mixer: Mixer, u: Tensor, cut: int, mode: str) -> tuple[list[Tensor], list[Tensor]]:
    """Return outputs and the last state, read in two pieces if `cut` is not 0, and gradients."""
    if cut:
        head, state = mixer(u[:, :cut], mode=mode)
        tail, state = mixer(u[:, cut:], state, mode)
        y = torch.cat([head, tail], 1)
    else:
        y, state = mixer(u, mode=mode)
    values = [y, *leaves_of(state)]
    loss = sum(
        ((value * torch.linspace(-1, 1, value.numel(), dtype=value.dtype).view_as(value)).sum())
        for value in values
    )
    trained = [weight for weight in mixer.parameters() if weight.requires_grad]
    return values, list(torch.autograd.grad(loss, [u, *trained]))


def modes_agree(mixer: Mixer, length: int) -> None:
    """Compare values, states and gradients of each mode, whole and in pieces, with the loop's."""
    moved(mixer)
    u = draw(BATCH, length, mixer.width).requires_grad_()
    expected = results(mixer, u, 0, "sequential")
    for mode in mixer.modes:
        for cut in {0, length // 3}:
            found = results(mixer, u, cut, mode)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
