"""What a scan does with transitions: act on states, join two, take the adjoint, sum a gradient.

Time is the first axis here: states are (T, B, ...), and transitions (T, B, ...), or (1, B, ...) or
(1, 1, ...) where they are constant, so that one position of all strings lies together in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Action(ABC):
    """How the transitions of one form act; `constant` says that their time axis has size one."""

    def __init__(self, constant: bool) -> None:
        self.constant = constant

    @abstractmethod
    def add(self, states: Tensor, a: Tensor, before: Tensor) -> None:
        """Add A x, for states x `before`, to `states` in place."""

    @abstractmethod
    def join(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Return the transition of `earlier` followed by `later`."""

    @abstractmethod
    def adjoint(self, a: Tensor) -> Tensor:
        """Return A^H."""

    @abstractmethod
    def slope(self, adjoints: Tensor, before: Tensor) -> Tensor:
        """Return dA = lambda x^H, summed over what A does not depend on."""

    def positions(self, a: Tensor, first: int, step: int = 1) -> Tensor:
        """Return the transitions of positions first, first + step, ..."""
        return a if self.constant else a[first::step]


class Elementwise(Action):
    """Transitions (T or 1, B, N) of states (T, B, N), real or complex."""

    def add(self, states: Tensor, a: Tensor, before: Tensor) -> None:
        states.addcmul_(a, before)

    def join(self, later: Tensor, earlier: Tensor) -> Tensor:
        return later * earlier

    def adjoint(self, a: Tensor) -> Tensor:
        return a.conj().resolve_conj()

    def slope(self, adjoints: Tensor, before: Tensor) -> Tensor:
        products = adjoints * before.conj()
        return products.sum(0, keepdim=True) if self.constant else products


class Blocks(Action):
    """Transitions (T, B, h, b, b), or constant (1, 1, h, b, b), of states (T, B, h, b)."""

    def add(self, states: Tensor, a: Tensor, before: Tensor) -> None:
        if not self.constant:
            states += torch.einsum("...ij,...j->...i", a, before)
            return
        moved = before.movedim(-2, 0)  # (h, T, B, b): all positions in one product
        product = torch.matmul(moved.flatten(1, -2), a[0, 0].mT)
        states += product.view(moved.shape).movedim(0, -2)

    def join(self, later: Tensor, earlier: Tensor) -> Tensor:
        return later @ earlier

    def adjoint(self, a: Tensor) -> Tensor:
        return a.mH

    def slope(self, adjoints: Tensor, before: Tensor) -> Tensor:
        if not self.constant:
            return adjoints[..., :, None] * before[..., None, :].conj()
        left, right = (x.permute(2, 0, 1, 3).flatten(1, 2) for x in (adjoints, before))
        return (left.mT @ right.conj())[None, None]
