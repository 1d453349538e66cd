"""Scans that go by a forward pass alone: the backward is the same scan, run backwards.

The adjoint of x_k = A_k x_{k-1} + b_k with upstream gradients g_k is

    lambda_T = g_T,   lambda_k = g_k + A_{k+1}^H lambda_{k+1},
    db_k = lambda_k,   dA_k = lambda_k x_{k-1}^H,   dx_0 = A_1^H lambda_1,

a recurrence of the same form. An algorithm is therefore one function that solves a recurrence in
place; nothing of what it builds on the way is kept for the backward.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from lrbench.scan.algorithms.action import Action, Blocks, Elementwise
from lrbench.scan.closed_form import ClosedForm, fold, one_by_one
from lrbench.scan.transitions import (
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    Transition,
    looked_up,
)

# (transitions a, inputs b, action): turn b (T, B, ...) into the states from a zero one, in place.
# The first transition is not read.
Solve = Callable[[Tensor, Tensor, Action], None]


def scan_by(solve: Solve, transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
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
def _form(solve: Solve, kind: str) -> ClosedForm:
    """Return the scan of transitions of a kind, with its backward."""
    constant = kind.startswith("constant")
    action = Blocks(constant) if "blocks" in kind else Elementwise(constant)
    forward = partial(_forward, solve=solve, action=action)
    backward = partial(_backward, solve=solve, action=action)
    return ClosedForm(forward, backward, one_by_one if kind == "constant blocks" else fold)


def _forward(
    values: Tensor, inputs: Tensor, initial: Tensor, *, solve: Solve, action: Action
) -> tuple[Tensor]:
    """Scan inputs (B, T, ...) from (B, ...) by values (B, T, ...), or constant ones."""
    a, states = _time_first(values), _own(inputs)
    action.add(states[:1], a[:1], initial[None])
    solve(a, states, action)
    return (states.transpose(0, 1),)


def _backward(
    values: Tensor,
    _: Tensor,
    initial: Tensor,
    result: Tensor,
    gradient: Tensor,
    *,
    solve: Solve,
    action: Action,
) -> tuple[Tensor, Tensor, Tensor]:
    a = action.adjoint(_time_first(values))
    adjoints = _own(gradient).flip(0)
    solve(a if action.constant else a[_backwards(a)], adjoints, action)
    adjoints = adjoints.flip(0)
    before = torch.cat([initial[None], result.transpose(0, 1)[:-1]])
    da = action.slope(adjoints, before)
    dinitial = torch.zeros_like(before[:1])
    action.add(dinitial, a[:1], adjoints[:1])
    return da.transpose(0, 1), adjoints.transpose(0, 1), dinitial[0]


def _backwards(a: Tensor) -> Tensor:
    """Return the positions 0, T-1, .., 1: what acts on the adjoints on their way back."""
    return torch.arange(len(a), 0, -1, device=a.device) % len(a)


def _time_first(values: Tensor) -> Tensor:
    return values.transpose(0, 1).contiguous()


def _own(values: Tensor) -> Tensor:
    return values.transpose(0, 1).clone(memory_format=torch.contiguous_format)
