"""Trees of recursion in recursion: trees of chunks, grafted into trees of their vectors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.encoders.base import Tree
from lrbench.encoders.rir.base import RirEncoder, grafted
from lrbench.encoders.rir.rir_crvnn import RirCrvnn, RirCrvnnConfig
from lrbench.encoders.rir.rir_grc import RirGrc, RirGrcConfig
from lrbench.encoders.rir.rir_om import RirOm, RirOmConfig

WIDTH = 8
KINDS: dict[str, tuple[type[RirEncoder], type[Any]]] = {
    "rir_grc": (RirGrc, RirGrcConfig),
    "rir_crvnn": (RirCrvnn, RirCrvnnConfig),
    "rir_om": (RirOm, RirOmConfig),
}
each = pytest.mark.parametrize("name", KINDS)


def encoder_of(name: str, **settings: Any) -> RirEncoder:
    torch.manual_seed(3)
    kind, config = KINDS[name]
    encoder = kind(config(s4d=False, **settings), WIDTH).double().eval()
    with torch.no_grad():  # far from the flat start, so that trees differ between strings
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter))
    return encoder


def strings(*lengths: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    x = torch.randn(len(lengths), max(lengths), WIDTH, dtype=torch.float64)
    return x, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def positions(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [*positions(tree[0]), *positions(tree[1])]


def test_leaves_are_replaced() -> None:
    assert grafted(((0, 1), 2), [5, (6, 7), 8]) == ((5, (6, 7)), 8)
    assert grafted(0, [(1, 2)]) == (1, 2)


def test_trees_are_as_deep_as_chunks_are_long() -> None:
    """A recurrent network reads a string of thousands as one branch beside another."""
    encoder = encoder_of("rir_grc", inference="full")
    (tree,), depth = encoder.trees(*strings(3000)), 0
    while isinstance(tree, tuple):
        tree, depth = tree[0], depth + 1
    assert (tree, depth) == (0, 2999)


@each
def test_every_position_once_and_in_order(name: str) -> None:
    encoder = encoder_of(name, chunk=4)
    x, mask = strings(17, 16, 9, 5, 1)
    assert [positions(tree) for tree in encoder.trees(x, mask)] == [
        list(range(length)) for length in mask.sum(1).tolist()
    ]


@each
def test_one_chunk_is_the_tree_of_the_inner_encoder(name: str) -> None:
    encoder = encoder_of(name, chunk=12)
    x, mask = strings(12, 12)
    leaves = encoder.leaves(x, mask).view_as(x)
    assert encoder.trees(x, mask) == encoder.chunk_trees(leaves, mask)


@each
def test_chunks_of_two_are_a_balanced_tree(name: str) -> None:
    encoder = encoder_of(name, chunk=2)
    x, mask = strings(8)
    assert encoder.trees(x, mask) == [(((0, 1), (2, 3)), ((4, 5), (6, 7)))]


@each
def test_two_levels_are_built_by_hand(name: str) -> None:
    """Nine positions in chunks of three, level by level as the paper has it."""
    encoder = encoder_of(name, chunk=3)
    x, mask = strings(9)
    whole = torch.ones(1, 3, dtype=torch.bool)
    leaves = encoder.leaves(x, mask)
    parts, vectors = [], []
    for start in (0, 3, 6):
        chunk = leaves[None, start : start + 3]
        [tree] = encoder.chunk_trees(chunk, whole)
        parts.append(grafted(tree, [start, start + 1, start + 2]))
        vectors.append(encoder.compose(chunk, whole, None))
    [above] = encoder.chunk_trees(torch.stack(vectors, 1), whole)
    assert encoder.trees(x, mask) == [grafted(above, parts)]


def test_a_row_that_is_done_early_keeps_its_tree() -> None:
    encoder = encoder_of("rir_om", chunk=4, chunk_decision="row")
    x, mask = strings(17, 3)
    alone = encoder.trees(x[1:, :3], mask[1:, :3])
    assert encoder.trees(x, mask)[1:] == alone


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rir_crvnn", "rir_om"])
def test_trees_are_of_the_string(name: str) -> None:
    encoder = encoder_of(name, chunk=16)
    torch.manual_seed(5)
    x = 4 * torch.randn(40, 12, WIDTH, dtype=torch.float64)
    mask = torch.ones(40, 12, dtype=torch.bool)
    assert len(set(encoder.trees(x, mask))) > 5
