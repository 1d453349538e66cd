"""Random recurrences of every kind, in float64, for any scan algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
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

BATCH, HEADS, SIZE, SYMBOLS = 3, 2, 3, 5
VARYING = ("blocks", "diagonal", "complex", "complex blocks")
CONSTANT = ("constant blocks", "constant diagonal", "constant complex", "constant complex blocks")
KINDS = (*VARYING, *CONSTANT, *(f"indexed {kind}" for kind in (*VARYING, *CONSTANT[:3])))
FORMS = {
    ("blocks", False): BlockDiagonal,
    ("blocks", True): ConstantBlocks,
    ("diagonal", False): Diagonal,
    ("diagonal", True): ConstantDiagonal,
}


@dataclass
class Recurrence:
    """Leaves (transitions, inputs, x_0) and the function that scans them."""

    leaves: tuple[Tensor, Tensor, Tensor]
    wrap: Callable[[Tensor], Transition]

    def states(self, algorithm: str, *leaves: Tensor) -> Tensor:
        a, b, x = leaves or self.leaves
        return scan(self.wrap(a), b, x, algorithm)

    def gradients(self, algorithm: str) -> tuple[Tensor, ...]:
        """Return d(weighted sum of states)/d(leaf), with weights that differ at each state."""
        states = self.states(algorithm)
        weight = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).view(states.shape)
        return torch.autograd.grad((states * weight).sum().real, self.leaves)


def form_of(kind: str) -> type:
    """Return what wraps the transitions of a kind."""
    return FORMS["blocks" if "blocks" in kind else "diagonal", "constant" in kind]


@pytest.fixture
def recurrence() -> Callable[..., Recurrence]:
    return make_recurrence


def make_recurrence(
    kind: str, length: int, batch: int = BATCH, symbols: int = SYMBOLS, seed: int = 0
) -> Recurrence:
    """Draw a recurrence of a kind; transitions are near isometries, so states stay of order 1."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if "complex" in kind else torch.float64

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    indexed, constant = "indexed" in kind, "constant" in kind
    rows = (1, symbols) if indexed else (batch, length)
    form = form_of(kind)
    if "blocks" in kind:
        a = torch.linalg.qr(draw(*(() if constant else rows), HEADS, SIZE, SIZE))[0]
        b, x = draw(*rows, HEADS, SIZE), draw(batch, HEADS, SIZE)
    else:
        a = draw(*(() if constant else rows), SIZE)
        a = a / a.abs()
        b, x = draw(*rows, SIZE), draw(batch, SIZE)
    index = torch.randint(symbols, (batch, length), generator=generator)

    def wrap(values: Tensor) -> Transition:
        return Indexed(form(values), index) if indexed else form(values)

    leaves = a.requires_grad_(), b.requires_grad_(), x.requires_grad_()
    return Recurrence(leaves, wrap)
