"""Brackets found in trees: against trees that are written out, and trees of the expression."""

from __future__ import annotations

import random

import torch

from lrbench.encoders.base import Tree
from lrbench.encoders.brackets import BracketCount, Span, fixed, found, nodes
from lrbench.registry import ENCODERS
from lrbench.tasks import make_task
from lrbench.tasks.listops.task import ListopsConfig
from lrbench.tasks.logic.task import LogicConfig


def drawn(draw: random.Random, start: int, end: int) -> Tree:
    """A random tree over the positions from start to end."""
    if end - start == 1:
        return start
    cut = draw.randrange(start + 1, end)
    return drawn(draw, start, cut), drawn(draw, cut, end)


def leaves(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [*leaves(tree[0]), *leaves(tree[1])]


def spans(tree: Tree) -> set[Span]:
    if isinstance(tree, int):
        return set()
    mine = leaves(tree)
    return {(mine[0], mine[-1] + 1)} | spans(tree[0]) | spans(tree[1])


def test_nodes_reach_from_their_first_leaf_to_their_last() -> None:
    draw = random.Random(0)
    for length in range(1, 40):
        tree = drawn(draw, 0, length)
        assert nodes(tree) == spans(tree)
        assert len(nodes(tree)) == length - 1


def test_trees_that_look_at_nothing() -> None:
    assert fixed(1) == {"left to right": 0, "right to left": 0, "balanced": 0}
    assert fixed(5) == {
        "left to right": ((((0, 1), 2), 3), 4),
        "right to left": (0, (1, (2, (3, 4)))),
        "balanced": (((0, 1), (2, 3)), 4),
    }
    deep = fixed(5_000)  # deeper than Python calls itself
    assert nodes(deep["left to right"]) == {(0, end) for end in range(2, 5_001)}
    assert nodes(deep["right to left"]) == {(start, 5_000) for start in range(4_999)}
    assert max(leaves(deep["balanced"])) == 4_999


def test_the_balanced_tree_is_that_of_the_balanced_encoder() -> None:
    entry = ENCODERS.get("bbt_grc")
    encoder = entry.cls(entry.config(), 4)
    for length in range(1, 34):
        mask = torch.ones(1, length, dtype=torch.bool)
        assert encoder.trees(torch.zeros(1, length, 4), mask) == [fixed(length)["balanced"]]


def test_brackets_of_listops_and_logic() -> None:
    task = make_task(ListopsConfig())
    tokens = task.tokens_of("[MAX 5 [SM 3 9 ] [MIN 1 [MED 4 ] ] 2 ]")
    assert task.brackets(tokens) == [(2, 6), (8, 11), (6, 12), (0, 14)]
    task = make_task(LogicConfig())
    assert task.brackets(task.tokens_of("( a ( or ( not b ) ) )")) == [(4, 8), (2, 9), (0, 10)]
    assert task.brackets(task.tokens_of("a")) == []


def test_what_is_found_by_either_reading() -> None:
    task = make_task(ListopsConfig())
    tokens = task.tokens_of("[MAX 5 [SM 3 9 ] 2 ]")
    for tree, expected in (
        # the bracket as one node, however it is made inside
        ((((0, 1), ((2, 3), (4, 5))), (6, 7)), BracketCount(1, 1, 1)),
        (((0, 1), (((((2, 3), 4), 5), 6), 7)), BracketCount(1, 1, 1)),
        # operator and arguments, and what closes them joined to what follows
        (((0, 1), (((2, 3), 4), ((5, 6), 7))), BracketCount(1, 0, 1)),
        (fixed(8)["left to right"], BracketCount(1, 0, 0)),
        (fixed(8)["right to left"], BracketCount(1, 0, 0)),
    ):
        assert found(tree, task.brackets(tokens), tokens, task.marks) == expected
    logic = make_task(LogicConfig())
    tokens = logic.tokens_of("( ( not b ) ( or a ) )")  # `( not b` and `) ( or a` and `) )`
    crossed: Tree = ((0, ((1, 2), 3)), ((((4, 5), 6), 7), (8, 9)))
    assert found(crossed, logic.brackets(tokens), tokens, logic.marks) == BracketCount(2, 0, 2)


def test_a_tree_of_the_expression_has_every_bracket() -> None:
    task, draw = make_task(ListopsConfig()), random.Random(1)
    for _ in range(50):
        text = expression(draw, 4)
        tokens = task.tokens_of(text)
        brackets = task.brackets(tokens)
        tree = joined(draw, brackets, 0, len(tokens))
        inner = max(0, len(brackets) - 1)
        assert found(tree, brackets, tokens, task.marks) == BracketCount(inner, inner, inner)


def expression(draw: random.Random, depth: int) -> str:
    if not depth or draw.random() < 0.3:
        return str(draw.randrange(10))
    parts = [expression(draw, depth - 1) for _ in range(draw.randint(1, 4))]
    return f"[{draw.choice(['MIN', 'MAX', 'MED', 'SM'])} {' '.join(parts)} ]"


def joined(draw: random.Random, brackets: list[Span], start: int, end: int) -> Tree:
    """A random tree over start..end that has each bracket inside as a node."""
    parts: list[Tree] = []
    position = start
    while position < end:
        own = [b for b in brackets if b[0] == position and b != (start, end) and b[1] <= end]
        if own:
            stop = max(last for _, last in own)
            parts.append(joined(draw, brackets, position, stop))
            position = stop
        else:
            parts.append(position)
            position += 1
    while len(parts) > 1:
        at = draw.randrange(len(parts) - 1)
        parts[at : at + 2] = [(parts[at], parts[at + 1])]
    return parts[0]
