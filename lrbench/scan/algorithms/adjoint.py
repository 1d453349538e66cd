"""Scans that go by a forward pass alone: the backward is the same scan, run backwards.

The adjoint of x_k = A_k x_{k-1} + b_k with upstream gradients g_k is

    lambda_T = g_T,   lambda_k = g_k + A_{k+1}^H lambda_{k+1},
    db_k = lambda_k,   dA_k = lambda_k x_{k-1}^H,   dx_0 = A_1^H lambda_1,

a recurrence of the same form. An algorithm is therefore one function that solves a recurrence in
place; nothing of what it builds on the way is kept for the backward.

An `Action` is what a scan does with transitions: act on states, join two, take the adjoint, sum a
gradient. Time is the first axis here: states are (T, B, ...), and transitions (T, B, ...), or
(1, B, ...) or (1, 1, ...) where they are constant, so that one position of all strings lies
together in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold, one_by_one
from lrbench.scan.transitions import (
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    Transition,
    looked_up,
    scanned,
)


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

    @property
    def of_adjoints(self) -> Action:
        """How A^H, as `adjoint` returns it, acts."""
        return self

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


# (transitions a, inputs b, action): turn b (T, B, ...) into the states from a zero one, in place.
# The first transition is not read.
Solve = Callable[[Tensor, Tensor, Action], None]


def in_order(a: Tensor, b: Tensor, action: Action) -> None:
    """Solve a recurrence position by position; see `Solve`."""
    for k in range(1, len(b)):
        action.add(b[k], a[k], b[k - 1])


def scan_by(solve: Solve, transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    by_itself = scanned(solve, transition, inputs, initial)
    if by_itself is not None:
        return by_itself
    found, inputs = looked_up(transition, inputs)
    if isinstance(found, ConstantBlocks):
        return _form(solve, "constant blocks")(found.blocks[None, None], inputs, initial)
    if isinstance(found, ConstantDiagonal):
        values = found.values.expand(len(inputs), 1, -1)  # by string, so that groups fold
        return _form(solve, "constant diagonal")(values, inputs, initial)
    if isinstance(found, Diagonal):
        return _form(solve, "diagonal")(found.values, inputs, initial)
    return _form(solve, "blocks")(found.blocks, inputs, initial)


@cache
def _form(solve: Solve, form: str) -> ClosedForm:
    """Return the scan of transitions of a kind, with its backward."""
    constant = form.startswith("constant")
    action = Blocks(constant) if "blocks" in form else Elementwise(constant)
    forward = partial(_forward, solve=solve, action=action)
    backward = partial(_backward, solve=solve, action=action)
    return ClosedForm(forward, backward, one_by_one if form == "constant blocks" else fold)


def _forward(
    values: Tensor, inputs: Tensor, initial: Tensor, *, solve: Solve, action: Action
) -> tuple[Tensor]:
    """Scan inputs (B, T, ...) from (B, ...) by values (B, T, ...), or constant ones."""
    states = states_of(solve, _time_first(values), own(inputs), initial, action)
    return (states.transpose(0, 1),)


def _backward(*tensors: Tensor, solve: Solve, action: Action) -> tuple[Tensor, Tensor, Tensor]:
    values, _, initial, result, gradient = tensors
    adjoints, dinitial = adjoints_of(solve, _time_first(values), gradient, action)
    before = torch.cat([initial[None], result.transpose(0, 1)[:-1]])
    da = action.slope(adjoints, before)
    return da.transpose(0, 1), adjoints.transpose(0, 1), dinitial


def states_of(solve: Solve, a: Tensor, states: Tensor, initial: Tensor, action: Action) -> Tensor:
    """Return `states`, inputs (T, B, ...), as the states from `initial` (B, ...) on."""
    action.add(states[:1], a[:1], initial[None])
    solve(a, states, action)
    return states


def adjoints_of(solve: Solve, a: Tensor, gradient: Tensor, action: Action) -> tuple[Tensor, Tensor]:
    """Return lambda (T, B, ...) for a `gradient` (B, T, ...), and the initial state's gradient."""
    a, back = action.adjoint(a), action.of_adjoints
    adjoints = own(gradient).flip(0)
    solve(a if action.constant else a[_backwards(a)], adjoints, back)
    adjoints = adjoints.flip(0)
    dinitial = torch.zeros_like(adjoints[:1])
    back.add(dinitial, a[:1], adjoints[:1])
    return adjoints, dinitial[0]


def _backwards(a: Tensor) -> Tensor:
    """Return the positions 0, T-1, .., 1: what acts on the adjoints on their way back."""
    return torch.arange(len(a), 0, -1, device=a.device) % len(a)


def _time_first(values: Tensor) -> Tensor:
    return values.transpose(0, 1).contiguous()


def own(values: Tensor) -> Tensor:
    """Return a copy (T, B, ...) of values (B, T, ...) that may be changed."""
    return values.transpose(0, 1).clone(memory_format=torch.contiguous_format)
