"""Diagonal plus low rank: every algorithm agrees with dense matrices, gradients too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.scan import ALGORITHMS, Indexed, scan
from lrbench.scan.structured.low_rank import DiagonalPlusLowRank

B, N, R, S = 3, 5, 4, 6


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def problem(rows: int, length: int) -> list[Tensor]:
    """Return d, s, U, V, inputs and an initial state, whose gradients are asked."""
    leaves = (
        draw(rows, length, N, seed=1).tanh(),
        draw(rows, length, R, seed=2).tanh() / 2,
        *(torch.linalg.qr(draw(N, R, seed=seed))[0] for seed in (3, 4)),
        draw(rows, length, 1, N, seed=5),
        draw(B, 1, N, seed=6),
    )
    return [leaf.requires_grad_() for leaf in leaves]


def states_and_slopes(
    leaves: list[Tensor], algorithm: str, index: Tensor | None = None
) -> list[Tensor]:
    made = DiagonalPlusLowRank(*leaves[:4])
    states = scan(made if index is None else Indexed(made, index), *leaves[4:], algorithm)
    loss = (states * torch.linspace(-1, 1, states.numel()).view_as(states)).sum()
    return [states, *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("length", [1, 2, 40, 129])
def test_every_algorithm_agrees_with_dense_matrices(length: int) -> None:
    leaves = problem(B, length)
    expected = states_and_slopes(leaves, "reference")
    assert all(float(slope.detach().abs().max()) > 0 for slope in expected)
    for algorithm in ALGORITHMS:
        for ours, theirs in zip(states_and_slopes(leaves, algorithm), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=algorithm)


def test_a_table_of_symbols_is_what_it_says_at_each_position() -> None:
    leaves = problem(1, S)
    index = torch.randint(S - 1, (B, 23), generator=torch.Generator().manual_seed(9))
    expected = states_and_slopes(leaves, "reference", index)
    for algorithm in ALGORITHMS:
        for ours, theirs in zip(states_and_slopes(leaves, algorithm, index), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=algorithm)


@torch.no_grad()
def test_acting_is_multiplying() -> None:
    made = DiagonalPlusLowRank(*problem(B, 7)[:4])
    d, s, left, right = made.values, made.scales, made.left, made.right
    for b in range(B):
        dense = torch.diag(d[b, 3]) + left @ torch.diag(s[b, 3]) @ right.T
        torch.testing.assert_close(made.written().blocks[b, 3, 0], dense)
    state = draw(B, 1, N, seed=8)
    product = torch.einsum("bhij,bhj->bhi", made.written().blocks[:, 3], state)
    torch.testing.assert_close(made.act(3, state), product)
