"""Many random trees at once, level by level, and their way into strings.

A forest is its levels: the nodes of one depth in order, those of one parent side by side, so that
the numbers of arguments alone say whose children the nodes of the next level are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.listops.grammar import CLOSE, DIGITS, MIN_ARGUMENTS, OPERATORS, Grammar

Words = NDArray[np.uint64]  # random 64-bit words


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of one level: token, number of arguments (0 for a digit) and number of its tree."""

    tokens: NDArray[np.uint8]
    arities: NDArray[np.int64]
    trees: NDArray[np.int64]

    def chosen(self, kept: NDArray[np.bool_], numbers: NDArray[np.int64]) -> Nodes:
        """Return those of the trees that are kept, under their new numbers."""
        rows = np.flatnonzero(kept[self.trees])
        return Nodes(self.tokens[rows], self.arities[rows], numbers[self.trees[rows]])


Forest = list[Nodes]


def grow(bits: np.random.BitGenerator, trees: int, grammar: Grammar) -> Forest:
    """Draw trees of the grammar, each node from one random word."""
    forest: Forest = []
    numbers = np.arange(trees)
    for depth in range(1, grammar.max_depth + 1):
        words: Words = bits.random_raw(len(numbers))
        operator = (words & np.uint64(3)) == 0  # a quarter of them
        if depth == grammar.max_depth:
            operator[:] = False
        arities = np.where(operator, drawn_arities(words, grammar), 0)
        forest.append(Nodes(drawn_tokens(words, operator), arities, numbers))
        numbers = np.repeat(numbers, arities)
        if not len(numbers):
            break
    return forest


def drawn_arities(words: Words, grammar: Grammar) -> NDArray[np.int64]:
    """Return a number of arguments for each word, from its upper half by multiply-shift."""
    choices = np.uint64(grammar.max_arguments - MIN_ARGUMENTS + 1)
    return ((words >> np.uint64(32)) * choices >> np.uint64(32)).astype(np.int64) + MIN_ARGUMENTS


def drawn_tokens(words: Words, operator: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return an operator from bits 2 and 3 of each word, or a digit from its upper half."""
    names = np.uint8(DIGITS) + ((words >> np.uint64(2)) & np.uint64(len(OPERATORS) - 1)).astype(
        np.uint8
    )
    digits = (words >> np.uint64(32)) * np.uint64(DIGITS) >> np.uint64(32)
    return np.where(operator, names, digits.astype(np.uint8))


def lengths(forest: Forest) -> NDArray[np.int64]:
    """Return how many tokens each tree will have: a digit is one, an operator two."""
    trees = len(forest[0].trees)
    total = np.zeros(trees, dtype=np.int64)
    for nodes in forest:
        total += np.bincount(nodes.trees, minlength=trees)
        total += np.bincount(nodes.trees[nodes.arities > 0], minlength=trees)
    return total


def keep(forest: Forest, kept: NDArray[np.bool_]) -> Forest:
    """Return the forest of those trees only."""
    numbers = np.cumsum(kept) - 1
    return [nodes.chosen(kept, numbers) for nodes in forest]


def serialise(forest: Forest) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the trees as strings: tokens one after the other, and offsets (n + 1,)."""
    sizes = _sizes(forest)
    offsets = np.concatenate([[0], np.cumsum(sizes[0])])
    tokens = np.full(offsets[-1], CLOSE, dtype=np.uint8)
    places = offsets[:-1]
    for depth, nodes in enumerate(forest):
        tokens[places] = nodes.tokens  # what stays is the closing brackets
        if depth + 1 == len(forest):
            break
        parents = np.flatnonzero(nodes.arities)
        before = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
        first = _firsts(nodes.arities[parents])
        shift = places[parents] + 1 - before[first]
        places = before + np.repeat(shift, nodes.arities[parents])
    return tokens, offsets


def _sizes(forest: Forest) -> list[NDArray[np.int64]]:
    """Return how many tokens each node has with all below it, level by level."""
    sizes = [np.ones(len(nodes.trees), dtype=np.int64) for nodes in forest]
    for depth in range(len(forest) - 2, -1, -1):
        parents = np.flatnonzero(forest[depth].arities)
        if len(parents):
            first = _firsts(forest[depth].arities[parents])
            sizes[depth][parents] = 2 + np.add.reduceat(sizes[depth + 1], first)
    return sizes


def _firsts(arities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the children of each parent begin in the next level."""
    return np.cumsum(arities) - arities
