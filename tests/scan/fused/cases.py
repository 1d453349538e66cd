"""Recurrences for fused kernels, of any kind, size and dtype, and how to compare them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.scan import (
    BlockDiagonal,
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    Indexed,
    Transition,
    scan,
)

TOLERANCES = {torch.float64: 1e-10, torch.complex128: 1e-10, torch.float32: 2e-5}
TOLERANCES[torch.complex64] = TOLERANCES[torch.float32]


@dataclass
class Case:
    """Leaves (transitions, inputs, x_0) and the function that makes a transition of them."""

    leaves: tuple[Tensor, Tensor, Tensor]
    wrap: Callable[[Tensor], Transition]

    def states(self, algorithm: str, *leaves: Tensor) -> Tensor:
        a, b, x = leaves or self.leaves
        return scan(self.wrap(a), b, x, algorithm)

    def results(self, algorithm: str) -> tuple[Tensor, ...]:
        """Return the states and the gradients of a sum that weighs each of them differently."""
        states = self.states(algorithm)
        weight = torch.linspace(-1, 1, states.numel(), device=states.device).view(states.shape)
        loss = (states * weight.to(states.dtype)).sum()
        return states, *torch.autograd.grad(loss.real, self.leaves)


def case(
    access: str,
    form: str,
    shape: tuple[int, ...],
    *,
    length: int,
    batch: int = 3,
    symbols: int = 5,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    seed: int = 0,
) -> Case:
    """Draw a recurrence whose transitions do not grow, so that states stay of order 1.

    access: "step", "table" or "constant". form: "blocks", with shape (h, b), or "diagonal", (N,).
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes: int) -> Tensor:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(sizes, generator=generator, dtype=wide)

    rows = {"step": (batch, length), "table": (1, symbols), "constant": ()}[access]
    places = (1, symbols) if access == "table" else (batch, length)
    a = draw(*rows, *shape, shape[-1]) if form == "blocks" else draw(*rows, *shape)
    a = torch.linalg.qr(a)[0] if form == "blocks" else a / a.abs()
    index = torch.randint(symbols, (batch, length), generator=generator).to(device)
    constant = access == "constant"

    def wrap(numbers: Tensor) -> Transition:
        if form == "blocks":
            made = ConstantBlocks(numbers) if constant else BlockDiagonal(numbers)
        else:
            made = ConstantDiagonal(numbers) if constant else Diagonal(numbers)
        return Indexed(made, index) if access == "table" else made

    numbers = a, draw(*places, *shape), draw(batch, *shape)
    a, b, x = (one.to(device, dtype).requires_grad_() for one in numbers)
    return Case((a, b, x), wrap)


def close(ours: Any, theirs: Any) -> None:
    """Compare within the tolerance of the dtype; nothing may be not a number."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        tolerance = TOLERANCES[other.dtype]
        scale = max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * scale)
