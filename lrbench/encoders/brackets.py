"""Agreement of trees with the brackets of the strings that they are over.

A tree is binary and says for each of its nodes from where to where it reaches. A bracket of a
string, `[SM 3 9 ]` in `[MAX 5 [SM 3 9 ] 2 ]`, is found where some node reaches from its first
symbol to its last. How its arguments are joined inside is free. The bracket around a whole string
is the root of every tree and does not count. This is the recall of unlabelled brackets (Black et
al. 1991; of latent trees Williams, Drozdov & Bowman 2018).

A tree may well gather an operator and its arguments and join the `]` later. So there is a second
reading, with the symbols left out that only open or close: there `[SM 3 9` is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lrbench.encoders.base import Encoder, Tree, folded
from lrbench.registry import ENCODERS

Span = tuple[int, int]  # first position, and the one after the last


@dataclass(frozen=True)
class BracketCount:
    """Of one string: how many brackets it has inside, and how many of them are nodes of a tree.

    `unmarked` counts those that are nodes once symbols that only open or close are left out.
    """

    brackets: int
    exact: int
    unmarked: int


def no_trees(name: str) -> str:
    """Say of a model that it has no trees, why, and which encoders have."""
    classes: dict[str, type[Encoder]] = {known: ENCODERS.get(known).cls for known in ENCODERS}
    have = ", ".join(known for known, cls in classes.items() if cls.shows_trees)
    return f"{name} has no trees: it joins no neighbours to nodes\nencoders with trees: {have}"


def nodes(tree: Tree) -> set[Span]:
    """Return where each node of a tree reaches, leaves left out; however deep it is."""
    spans: set[Span] = set()

    def join(left: Span, right: Span) -> Span:
        spans.add((left[0], right[1]))
        return left[0], right[1]

    folded(tree, lambda place: (place, place + 1), join)
    return spans


def found(
    tree: Tree, brackets: Sequence[Span], tokens: Sequence[int], marks: Collection[int]
) -> BracketCount:
    """Return how many brackets inside a string a tree over its positions has.

    marks: the symbols that only open or close.
    """
    spans = nodes(tree)
    inner = [span for span in brackets if span != (0, len(tokens))]
    before = np.concatenate([[0], np.cumsum([token not in marks for token in tokens])]).tolist()
    left = {(before[start], before[end]) for start, end in spans}
    exact = sum(span in spans for span in inner)
    return BracketCount(len(inner), exact, sum((before[a], before[b]) in left for a, b in inner))


def fixed(length: int) -> Mapping[str, Tree]:
    """Return trees that do not look at the string: left to right, right to left, and balanced."""
    left: Tree = 0
    right: Tree = length - 1
    level: list[Tree] = list(range(length))
    for position in range(1, length):
        left = (left, position)
        right = (length - 1 - position, right)
    while len(level) > 1:
        pairs = [(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = [*pairs, *level[2 * len(pairs) :]]
    return {"left to right": left, "right to left": right, "balanced": level[0]}
