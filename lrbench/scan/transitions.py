"""Kinds of transitions A_k of a linear recurrence x_k = A_k x_{k-1} + b_k.

Shapes: B batch, T length, S symbols, N state size, h blocks, b block size.

`Indexed` says that a transition depends on a symbol alone: coefficients are computed once for
each of S symbols, and `index` says which of them acts at each position. It never has to be
written out for every position, which is what keeps a first layer cheap.

`GeneratedBlocks` says what the blocks of each position are made from, a few numbers each, so that
a scan can make them as it goes and sum their gradient into the weights at once: at b = 8 the blocks
are eight times the size of everything else in a layer.

`ConstantDiagonal` and `ConstantBlocks` are the same at every position of every string: linear
time-invariant systems.

Every other kind is a `Structured` one, a class of its own. It defines how it acts on a state, and
its blocks when written out. The algorithms need no more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from lrbench.kernels.rows import rows
from lrbench.scan.blocks.constraints import constrain
from lrbench.scan.blocks.hidden import hidden_layer


class Form:
    """What the algorithms ask of a kind of transition before they choose."""

    diagonal: ClassVar[bool] = False  # elementwise, on states (B, N)
    constant: ClassVar[bool] = False  # the same at every position of every string
    made_in_loops: ClassVar[bool] = False  # position after position: no other algorithm gains


@dataclass(frozen=True)
class Diagonal(Form):
    """Elementwise transitions: `values` (B, T, N), real or complex."""

    values: Tensor
    diagonal = True

    def take(self, index: Tensor) -> Diagonal:
        """Return the transitions (B, T, N) picked from a table (1, S, N) by `index` (B, T)."""
        return Diagonal(rows(self.values[0], index))

    def written(self) -> Diagonal:
        return self


@dataclass(frozen=True)
class BlockDiagonal(Form):
    """Blocks acting on columns of a state (h, b): `blocks` (B, T, h, b, b), [row, column]."""

    blocks: Tensor

    def take(self, index: Tensor) -> BlockDiagonal:
        """Return the blocks (B, T, h, b, b) picked from a table (1, S, h, b, b) by `index`."""
        return BlockDiagonal(rows(self.blocks[0], index))

    def written(self) -> BlockDiagonal:
        return self


@dataclass(frozen=True)
class GeneratedBlocks(Form):
    """Blocks W z_k under a constraint on their columns.

    A bias is a column of W that goes with a feature that is always 1. Shapes: weight
    (h, b, b, n), features z (B, T, n); constraint and p as in `constrain`.
    """

    weight: Tensor
    features: Tensor
    constraint: str
    p: float
    made_in_loops = True

    def written(self) -> BlockDiagonal:
        """Return the blocks themselves."""
        rows, length, _ = self.features.shape
        columns = self.features.permute(2, 1, 0).flatten(1)  # (n, T B): `constrain` wants rows last
        raw = self.weight.flatten(0, 2) @ columns
        blocks = constrain(raw.unflatten(0, self.weight.shape[:3]), self.constraint, self.p)
        return BlockDiagonal(blocks.unflatten(3, (length, rows)).permute(4, 3, 0, 1, 2))


@dataclass(frozen=True)
class PerceptronBlocks(Form):
    """Blocks W z_k under a constraint, whose features are a hidden layer's: z = relu(W_1 u + c_1).

    A scan may make z as it goes, too. Shapes: weight (h, b, b, n + 1), whose last column is a bias;
    first_weight (n, D), first_bias (n), u (B, T, D).
    """

    weight: Tensor
    first_weight: Tensor
    first_bias: Tensor
    u: Tensor
    constraint: str
    p: float
    made_in_loops = True

    def generated(self) -> GeneratedBlocks:
        """Return the same with the features made."""
        z = hidden_layer(self.first_weight, self.first_bias, self.u)
        return GeneratedBlocks(self.weight, z, self.constraint, self.p)

    def written(self) -> BlockDiagonal:
        """Return the blocks themselves."""
        return self.generated().written()


@dataclass(frozen=True)
class ConstantDiagonal(Form):
    """One elementwise transition for all positions: `values` (N), real or complex."""

    values: Tensor
    diagonal = constant = True

    def take(self, index: Tensor) -> ConstantDiagonal:
        """Return itself: no symbol changes it."""
        return self

    def written(self) -> ConstantDiagonal:
        return self

    def everywhere(self, batch: int, length: int) -> Diagonal:
        """Return the transitions of every position, (B, T, N), in no memory of their own."""
        return Diagonal(self.values.expand(batch, length, -1))


@dataclass(frozen=True)
class ConstantBlocks(Form):
    """One set of blocks for all positions: `blocks` (h, b, b), [row, column]; h = 1 is dense."""

    blocks: Tensor
    constant = True

    def take(self, index: Tensor) -> ConstantBlocks:
        """Return itself: no symbol changes it."""
        return self

    def written(self) -> ConstantBlocks:
        return self

    def everywhere(self, batch: int, length: int) -> BlockDiagonal:
        """Return the blocks of every position, (B, T, h, b, b), in no memory of their own."""
        return BlockDiagonal(self.blocks.expand(batch, length, -1, -1, -1))


class Structured(Form, ABC):
    """A kind of transition with a structure of its own, such as a product of reflections.

    States are (B, h, b), real or complex; a matrix (V, K) on whose rows A_k acts is such a state
    with h = V. A scan goes by `act`, position after position, or by `written`; gradients are
    autograd's.
    """

    made_in_loops = True

    @abstractmethod
    def act(self, position: int, state: Tensor) -> Tensor:
        """Return A_k x for k = `position` and a state (B, h, b)."""

    @abstractmethod
    def written(self) -> BlockDiagonal:
        """Return the blocks themselves: (B, T, h, b, b), which may be broadcast over h."""

    def looped(self, inputs: Tensor, initial: Tensor) -> Tensor:
        """Return the states (B, T, h, b) of inputs like them, one after another, from (B, h, b)."""
        state, states = initial, []
        for position, added in enumerate(inputs.unbind(1)):
            state = self.act(position, state) + added
            states.append(state)
        return torch.stack(states, 1)

    def scanned(
        self, solve: Any, index: Tensor | None, inputs: Tensor, initial: Tensor
    ) -> Tensor | None:
        """Return the states by `solve` (`algorithms/adjoint.py`), or None: as any other kind.

        Where `index` (B, T) is given, this and the inputs are tables of symbols.
        """
        return None


@dataclass(frozen=True)
class Indexed:
    """A table of S transitions, (1, S, ...), and the symbol at each position: `index` (B, T).

    Over a constant transition only the inputs are looked up.
    """

    table: Diagonal | BlockDiagonal | GeneratedBlocks | PerceptronBlocks | Constant | Structured
    index: Tensor


Dense: TypeAlias = Diagonal | BlockDiagonal
Constant: TypeAlias = ConstantDiagonal | ConstantBlocks
Transition: TypeAlias = (
    Diagonal | BlockDiagonal | GeneratedBlocks | PerceptronBlocks | Constant | Structured | Indexed
)


def form_of(transition: Transition) -> Form:
    """Return the transition itself, or what an `Indexed` one is a table of."""
    return transition.table if isinstance(transition, Indexed) else transition


def scanned(solve: Any, transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor | None:
    """Return the states by a structure's own form, where it has one; see `Structured.scanned`."""
    index = transition.index if isinstance(transition, Indexed) else None
    form = form_of(transition)
    return form.scanned(solve, index, inputs, initial) if isinstance(form, Structured) else None


def looked_up(transition: Transition, inputs: Tensor) -> tuple[Dense | Constant, Tensor]:
    """Return (transition, inputs) with inputs (B, T, ...) and, unless constant, transitions too.

    For an `Indexed` transition `inputs` is the table (1, S, ...) that goes with it.
    """
    if isinstance(transition, Indexed):
        table = transition.table.written()
        return table.take(transition.index), rows(inputs[0], transition.index)
    return transition.written(), inputs


def written_out(transition: Transition, inputs: Tensor) -> tuple[Dense, Tensor]:
    """Return (transition, inputs) with one entry for each position; see `looked_up`."""
    found, inputs = looked_up(transition, inputs)
    if isinstance(found, ConstantDiagonal | ConstantBlocks):
        return found.everywhere(*inputs.shape[:2]), inputs
    return found, inputs


def apply(transition: Dense, position: int, state: Tensor) -> Tensor:
    """Return A_k x for k = `position` and a state (B, N) or (B, h, b)."""
    if isinstance(transition, Diagonal):
        return transition.values[:, position] * state
    return torch.einsum("bhij,bhj->bhi", transition.blocks[:, position], state)
