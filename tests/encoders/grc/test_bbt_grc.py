"""BBT-GRC: packed trees against padded levels; the tree of a string depends on its length alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lrbench.encoders.grc.bbt_grc import BbtGrc, BbtGrcConfig, balanced

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9])


def encoder_of(width: int) -> BbtGrc:
    torch.manual_seed(0)
    return BbtGrc(BbtGrcConfig(), width).double()


@pytest.mark.parametrize("more", [0, 2])
def test_packed_equals_padded(more: int) -> None:
    encoder = encoder_of(8)
    mask = torch.arange(13 + more) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, 8, dtype=torch.float64).mul_(mask[..., None]).requires_grad_()
    weight, found = torch.randn(7, 8, dtype=torch.float64), []
    for way in (encoder.forward, encoder.reference):
        y = way(x, mask)
        found.append([y, *torch.autograd.grad((y * weight).sum(), [x, *encoder.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def bracketed(leaves: list[str]) -> str:
    """A balanced tree in brackets, by the definition."""
    while len(leaves) > 1:
        pairs = [f"({a}{b})" for a, b in zip(leaves[0::2], leaves[1::2], strict=False)]
        leaves = pairs + leaves[2 * len(pairs) :]
    return leaves[0]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_trees_are_balanced(lengths: list[int]) -> None:
    names = [[f"{n}.{i} " for i in range(length)] for n, length in enumerate(lengths)]
    nodes = [leaf for leaves in names for leaf in leaves]
    levels, roots = balanced(lengths)
    assert len(levels) == math.ceil(math.log2(max(lengths)))
    for pairs, alone in levels:
        couples = zip(pairs[0::2], pairs[1::2], strict=True)
        nodes = [f"({nodes[a]}{nodes[b]})" for a, b in couples] + [nodes[i] for i in alone]
    assert [nodes[root] for root in roots] == [bracketed(leaves) for leaves in names]


def test_trees_can_be_read_out() -> None:
    mask = torch.arange(5) < torch.tensor([5, 1, 2])[:, None]
    trees = encoder_of(8).trees(torch.zeros(3, 5, 8), mask)
    assert trees == [(((0, 1), (2, 3)), 4), 0, (0, 1)]


def test_cells_are_called_once_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, calls = encoder_of(8), []
    forward = encoder.cell.forward
    monkeypatch.setattr(
        encoder.cell, "forward", lambda pairs, g: calls.append(len(pairs)) or forward(pairs, g)
    )
    mask = torch.arange(13) < LENGTHS[:, None]
    encoder(torch.randn(7, 13, 8, dtype=torch.float64), mask)
    assert len(calls) == 4
    assert sum(calls) == int((LENGTHS - 1).sum()), "a pair for each merge, none for padding"
