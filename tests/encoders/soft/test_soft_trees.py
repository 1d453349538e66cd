"""Trees of soft merges: hand-made histories, and every position once and in order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.encoders.base import Tree
from lrbench.encoders.soft.crvnn import Crvnn, CrvnnConfig, by_existence
from lrbench.encoders.soft.ordered_memory import OrderedMemory, OrderedMemoryConfig, by_slots


def leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [*leaves(tree[0]), *leaves(tree[1])]


@pytest.mark.parametrize(
    ("history", "tree"),
    [
        ([[0.3, 1.0, 1.0], [0.3, 0.2, 1.0]], ((0, 1), 2)),
        ([[0.8, 0.4, 1.0], [0.2, 0.1, 1.0]], (0, (1, 2))),
        ([[0.3, 0.3, 1.0]], ((0, 1), 2)),
        ([[0.9, 0.6, 1.0]], (0, (1, 2))),
        ([[0.6, 0.9, 1.0]], ((0, 1), 2)),
        ([[0.2, 0.9, 0.4, 1.0], [0.2, 0.3, 0.4, 1.0]], ((0, 1), (2, 3))),
        ([[1.0]], 0),
    ],
)
def test_tokens_merge_to_the_right_as_they_vanish(history: list[list[float]], tree: Tree) -> None:
    assert by_existence(history, len(history[0])) == tree


@pytest.mark.parametrize(
    ("positions", "tree"),
    [
        ([], 0),
        ([0], (0, 1)),
        ([0, 0], ((0, 1), 2)),
        ([0, 1], (0, (1, 2))),
        ([0, 1, 0], ((0, (1, 2)), 3)),
        ([0, 1, 1], (0, ((1, 2), 3))),
        ([0, 1, 2], (0, (1, (2, 3)))),
        ([0, 0, 1], ((0, 1), (2, 3))),
        ([5, 7], (0, (1, 2))),
    ],
)
def test_slots_hold_subtrees(positions: list[int], tree: Tree) -> None:
    assert by_slots(positions) == tree


class _Brackets(nn.Module):
    """A cell on numbers that stand for trees: the pair (l, r) is 3 l + 5 r + 1."""

    def reference(self, pairs: Tensor) -> Tensor:
        left, right = pairs.chunk(2, 1)
        return 3 * left + 5 * right + 1


def value(tree: Tree, x: list[float]) -> float:
    if isinstance(tree, int):
        return x[tree]
    return 3 * value(tree[1], x) + 5 * value(tree[0], x) + 1  # R(h, M): what was before is right


def test_a_hard_memory_computes_the_tree_of_its_slots() -> None:
    """Follow the equations of the memory with p at one slot each, beside `by_slots`."""
    cell, x = _Brackets(), [0.5, -1.0, 2.0, 3.0, -0.5, 1.5]
    positions, slots = [0, 1, 2, 1, 2], 4
    hat, memory = torch.full((slots,), x[0]), torch.zeros(slots)
    for now, slot in zip(x[1:], positions, strict=True):
        p = torch.zeros(slots)
        p[slots - 1 - slot] = 1
        cp, rcp = p.cumsum(0), p.flip(0).cumsum(0).flip(0)
        memory = memory * (1 - rcp) + hat * rcp
        h, written = torch.tensor(now), []
        for c, m in zip(cp, memory, strict=True):
            h = now * (1 - c) + cell.reference(torch.stack([h, m])[None])[0, 0] * c
            written.append(h)
        hat = torch.stack(written)
    assert float(hat[-1]) == pytest.approx(value(by_slots(positions), x))


@pytest.mark.parametrize(
    ("kind", "config"), [(Crvnn, CrvnnConfig()), (OrderedMemory, OrderedMemoryConfig(slots=3))]
)
def test_every_position_is_in_a_tree_once(kind: Any, config: Any) -> None:
    torch.manual_seed(0)
    encoder, lengths = kind(config, 8), torch.tensor([1, 7, 2, 12])
    mask = torch.arange(12) < lengths[:, None]
    trees = encoder.trees(torch.randn(4, 12, 8), mask)
    assert [leaves(tree) for tree in trees] == [list(range(n)) for n in lengths.tolist()]
