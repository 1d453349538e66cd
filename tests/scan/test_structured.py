"""Kinds of transition that this file alone knows: every algorithm takes them, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from lrbench.scan import ALGORITHMS, BlockDiagonal, Indexed, Structured, scan

B, T, V, K, S = 3, 13, 2, 4, 5


@dataclass(frozen=True)
class Reflections(Structured):
    """A_k = g_k (I - beta_k k_k k_k^T), acting on the rows of a state (B, V, K).

    keys (B, T, K), of length one; strengths and gates (B, T).
    """

    keys: Tensor
    strengths: Tensor
    gates: Tensor

    def act(self, position: int, state: Tensor) -> Tensor:
        key = self.keys[:, position, None]
        along = (state * key).sum(-1, keepdim=True)
        strength, gate = (x[:, position, None, None] for x in (self.strengths, self.gates))
        return gate * (state - strength * along * key)

    def written(self) -> BlockDiagonal:  # for all rows at once: size one over h
        outer = self.keys[..., :, None] * self.keys[..., None, :]
        eye = torch.eye(K, dtype=self.keys.dtype)
        matrices = self.gates[..., None, None] * (eye - self.strengths[..., None, None] * outer)
        return BlockDiagonal(matrices[:, :, None])


@dataclass(frozen=True)
class ScaledMap(Structured):
    """x'_to(j) += d_j x_j: a column-one-hot matrix times a diagonal. to (B, T, K), d (B, T, K)."""

    to: Tensor
    d: Tensor

    def act(self, position: int, state: Tensor) -> Tensor:
        scaled = state * self.d[:, position, None]
        to = self.to[:, position, None].expand_as(state)
        return torch.zeros_like(state).scatter_add(-1, to, scaled)

    def written(self) -> BlockDiagonal:
        marks = torch.nn.functional.one_hot(self.to, K).mT.to(self.d.dtype)
        return BlockDiagonal((marks * self.d[..., None, :])[:, :, None].expand(-1, -1, V, -1, -1))


def numbers(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def reflections(batch: int, length: int) -> tuple[list[Tensor], Callable[..., Structured]]:
    leaves = [numbers(batch, length, K, seed=1), *(numbers(batch, length, seed=s) for s in (2, 3))]

    def make(keys: Tensor, strengths: Tensor, gates: Tensor) -> Structured:
        unit = torch.nn.functional.normalize(keys, dim=-1)
        return Reflections(unit, 2 * strengths.sigmoid(), gates.sigmoid())

    return leaves, make


def scaled_map(batch: int, length: int) -> tuple[list[Tensor], Callable[..., Structured]]:
    to = torch.randint(K, (batch, length, K), generator=torch.Generator().manual_seed(4))
    return [numbers(batch, length, K, seed=5)], lambda d: ScaledMap(to, d.tanh())


KINDS = {"reflections": reflections, "scaled map": scaled_map}


def states_and_gradients(
    kind: str, algorithm: str, index: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    rows, length = (B, T) if index is None else (1, S)
    leaves, make = KINDS[kind](rows, length)
    inputs, initial = numbers(rows, length, V, K, seed=6), numbers(B, V, K, seed=7)
    made = make(*leaves)
    states = scan(made if index is None else Indexed(made, index), inputs, initial, algorithm)
    weights = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).view_as(states)
    return states, torch.autograd.grad((states * weights).sum(), [*leaves, inputs, initial])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("looked_up", [False, True], ids=["by position", "by symbol"])
def test_every_algorithm_agrees_with_the_slow_truth(kind: str, looked_up: bool) -> None:
    index = torch.randint(S, (B, T), generator=torch.Generator().manual_seed(8))
    where = index if looked_up else None
    states, slopes = states_and_gradients(kind, "reference", where)
    assert float(states.detach().abs().max()) > 1
    for algorithm in ALGORITHMS:
        ours, own_slopes = states_and_gradients(kind, algorithm, where)
        torch.testing.assert_close(ours, states, rtol=1e-11, atol=1e-12, msg=algorithm)
        for mine, theirs in zip(own_slopes, slopes, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11, msg=algorithm)


@pytest.mark.parametrize("kind", KINDS)
def test_acting_is_multiplying(kind: str) -> None:
    leaves, make = KINDS[kind](B, T)
    made, state = make(*leaves), numbers(B, V, K, seed=9)
    for position in range(T):
        blocks = made.written().blocks[:, position]
        product = torch.einsum("bhij,bhj->bhi", blocks, state)
        torch.testing.assert_close(made.act(position, state), product)
