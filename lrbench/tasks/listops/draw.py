"""Drawing ListOps strings: the random grammar, many trees at once, until enough are different.

Source: Nangia & Bowman 2018, "ListOps: a diagnostic dataset for latent tree learning"
(arXiv:1804.06028), and the settings of what was made from it since: Havrylov et al. 2019 (length
splits), Ray Chowdhury & Caragea 2023 (argument splits), Tay et al. 2021 (Long Range Arena).

Randomness comes from PCG64, seeded through numpy's SeedSequence by a hash of (seed, purpose). Only
raw 64-bit words are read, whose order numpy promises to keep, and turned into choices by integer
arithmetic; so a seed gives the same strings with every version of numpy and on every platform. The
project's counter-based stream (lrbench/tasks/stream.py) needs to know a string's length before it
draws, and torch; here a corpus is drawn once, in order, and kept.

A forest is its levels: the nodes of one depth in order, those of one parent side by side, so that
the numbers of arguments alone say whose children the nodes of the next level are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.corpus.strings import Strings, gather
from lrbench.tasks.listops.expressions import (
    CLASS_NAMES,
    CLOSE,
    DIGITS,
    OPERATORS,
    VOCABULARY,
    evaluate_all,
)

MIN_ARGUMENTS = 2
P_OPERATOR = 0.25  # the released code calls it VALUE_P, yet it is the probability of an operator


@dataclass(frozen=True)
class Grammar:
    """tree(depth): an operator with probability 1/4 where depth < max_depth, else a digit.

    Digits, the four operators and the numbers of arguments 2..max_arguments are uniform. The root
    has depth 1, so operators nest at most max_depth - 1 deep. The root may be a bare digit.
    """

    max_arguments: int
    max_depth: int


NANGIA = Grammar(max_arguments=5, max_depth=20)

Words = NDArray[np.uint64]  # random 64-bit words


@dataclass(frozen=True, eq=False)
class TreeLevel:
    """The nodes of one level: token, number of arguments (0 for a digit) and number of its tree."""

    tokens: NDArray[np.uint8]
    arities: NDArray[np.int64]
    trees: NDArray[np.int64]

    def chosen(self, kept: NDArray[np.bool_], numbers: NDArray[np.int64]) -> TreeLevel:
        """Return those of the trees that are kept, under their new numbers."""
        rows = np.flatnonzero(kept[self.trees])
        return TreeLevel(self.tokens[rows], self.arities[rows], numbers[self.trees[rows]])


Forest = list[TreeLevel]


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
        forest.append(TreeLevel(drawn_tokens(words, operator), arities, numbers))
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
    positions = offsets[:-1]
    for depth, nodes in enumerate(forest):
        tokens[positions] = nodes.tokens  # what stays is the closing brackets
        if depth + 1 == len(forest):
            break
        parents = np.flatnonzero(nodes.arities)
        before = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
        first = _firsts(nodes.arities[parents])
        shift = positions[parents] + 1 - before[first]
        positions = before + np.repeat(shift, nodes.arities[parents])
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


BLOCK = 1 << 14  # trees drawn together; what a seed gives depends on it
Flat = tuple[NDArray[np.uint8], NDArray[np.int64]]  # tokens and offsets


def bits(seed: int, *purpose: str | int) -> np.random.PCG64:
    """Return the source of random words of a seed and a purpose."""
    digest = hashlib.sha256(json.dumps([seed, "listops", *purpose]).encode()).digest()
    return np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big")))


def trees(source: np.random.BitGenerator, grammar: Grammar, accepted: range | None = None) -> Flat:
    """Draw one block of the grammar and return those whose length is accepted, in order."""
    forest: Forest = grow(source, BLOCK, grammar)
    if accepted is not None:
        length = lengths(forest)
        forest = keep(forest, (length >= accepted.start) & (length < accepted.stop))
    return serialise(forest)


def unique(
    draw: Callable[[], Flat], wanted: int, progress: Callable[[int], None] = lambda done: None
) -> Strings:
    """Return the first `wanted` different strings that `draw` gives, in order, with their values.

    It must be able to give as many. `progress` is told how many there are.
    """
    seen: set[bytes] = set()
    parts: list[Flat] = []
    while len(seen) < wanted:
        tokens, offsets = draw()
        new = _new(tokens.tobytes(), offsets.tolist(), seen, wanted)
        parts.append(gather(tokens, offsets, np.array(new, dtype=np.int64)))
        progress(len(seen))
    del seen
    tokens = np.concatenate([tokens for tokens, _ in parts])
    ends = np.cumsum([0] + [len(tokens) for tokens, _ in parts])
    begins = [offsets[:-1] + end for (_, offsets), end in zip(parts, ends, strict=False)]
    return labelled(tokens, np.concatenate([*begins, [len(tokens)]]))


def labelled(tokens: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Strings:
    """Return right expressions with their values."""
    return Strings(tokens, offsets, evaluate_all(tokens, offsets), VOCABULARY, CLASS_NAMES)


def _new(text: bytes, offsets: list[int], seen: set[bytes], wanted: int) -> list[int]:
    """Return which strings have not been seen before, and note them, until `wanted` are."""
    new = []
    for place in range(len(offsets) - 1):
        string = text[offsets[place] : offsets[place + 1]]
        if string not in seen:
            seen.add(string)
            new.append(place)
            if len(seen) == wanted:
                break
    return new
