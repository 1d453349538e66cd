"""Trees of given lengths, drawn exactly from the grammar's distribution given the length.

Long strings are too rare to wait for (one draw in 75,000 has 900 to 1,000 tokens). With f_t the
distribution of the length of a tree at depth t, f^{*n} its n-fold convolution and D the greatest
depth,

    f_D(l) = [l = 1]        f_t(l) = 3/4 [l = 1] + 1/4 mean_{n = 2..A} f_{t+1}^{*n}(l - 2)

A length is drawn from f_1 restricted to the accepted ones, then from the root down the number of
arguments and their lengths, one after the other, from what is left of the convolution: the first of
n arguments that share L tokens has a of them with probability proportional to
f(a) f^{*(n-1)}(L - a). Rejection gives this distribution, too; tests compare them.

Sums are of float64, by elementwise operations and running sums only, whose rounding is the same on
every machine. No term is negative, so relative errors stay near 1e-13 however rare a length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.listops.draw import (
    MIN_ARGUMENTS,
    P_OPERATOR,
    Forest,
    Grammar,
    TreeLevel,
    Words,
    drawn_tokens,
    serialise,
)

Weights = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LengthTables:
    """Distributions of lengths up to a longest, as arrays with the length as index.

    `own[t]` is f_t, t = 1..D; `shared[t][n]` is f_{t+1}^{*n}, n = 1..A: what n arguments of a node
    at depth t have together.
    """

    own: dict[int, Weights]
    shared: dict[int, list[Weights]]

    def probability(self, accepted: range) -> float:
        """Return the probability that a tree's length is accepted."""
        return float(self.own[1][accepted.start : accepted.stop].sum())


@lru_cache(maxsize=4)
def length_tables(grammar: Grammar, longest: int) -> LengthTables:
    """Return the distributions of lengths 0..longest at every depth."""
    digit = np.zeros(longest + 1)
    digit[1] = 1.0
    own, shared = {grammar.max_depth: digit}, {}
    choices = grammar.max_arguments - MIN_ARGUMENTS + 1
    for depth in range(grammar.max_depth - 1, 0, -1):
        one = own[depth + 1]
        sums = [np.zeros(0), one]
        while len(sums) <= grammar.max_arguments:
            sums.append(_convolved(one, sums[-1]))
        mean = sum(sums[MIN_ARGUMENTS:], start=np.zeros(longest + 1)) / choices
        own[depth] = (1 - P_OPERATOR) * digit
        own[depth][2:] += P_OPERATOR * mean[:-2]
        shared[depth] = sums
    return LengthTables(own, shared)


def draw_given_length(
    source: np.random.BitGenerator, trees: int, grammar: Grammar, accepted: range
) -> tuple[NDArray[np.uint8], Counts]:
    """Draw trees with lengths in `accepted` (half open): tokens one after the other, and offsets.

    Raises ValueError if the grammar has no tree of such a length.
    """
    tables = length_tables(grammar, accepted.stop - 1)
    weights = tables.own[1][accepted.start : accepted.stop]
    if not weights.any():
        raise ValueError(f"{grammar} has no tree of {accepted.start} to {accepted.stop - 1} tokens")
    numbers = np.arange(trees)
    size = accepted.start + _pick(np.cumsum(weights), _fractions(source, trees))
    forest: Forest = []
    for depth in range(1, grammar.max_depth + 1):
        operator = size > 1
        parents = np.flatnonzero(operator)
        arities = np.zeros(len(size), dtype=np.int64)
        words: Words = source.random_raw(len(size))
        if len(parents):
            sums = tables.shared[depth]
            arities[parents] = _arities(source, sums, size[parents] - 2)
        forest.append(TreeLevel(drawn_tokens(words, operator), arities, numbers))
        if not len(parents):
            break
        numbers = np.repeat(numbers, arities)
        size = _arguments(source, sums, arities[parents], size[parents] - 2)
    return serialise(forest)


def _arities(source: np.random.BitGenerator, sums: list[Weights], total: Counts) -> Counts:
    """Draw how many arguments share each total."""
    weights = np.cumsum(np.stack(sums[MIN_ARGUMENTS:]), axis=0)[:, total]
    target = _fractions(source, len(total)) * weights[-1]
    more: Counts = (weights <= target).sum(axis=0)
    return MIN_ARGUMENTS + more


def _arguments(
    source: np.random.BitGenerator, sums: list[Weights], arities: Counts, total: Counts
) -> Counts:
    """Draw the lengths of all arguments, those of one operator side by side: (sum of arities,)."""
    first = np.cumsum(arities) - arities
    size = np.empty(int(arities.sum()), dtype=np.int64)
    left = total.copy()
    for place in range(int(arities.max())):
        rows = np.flatnonzero(arities - place > 1)
        size[first[rows] + place] = _first(source, sums, arities[rows] - place, left[rows])
        left[rows] -= size[first[rows] + place]
        last = np.flatnonzero(arities - place == 1)
        size[first[last] + place] = left[last]
    return size


def _first(
    source: np.random.BitGenerator, sums: list[Weights], arguments: Counts, total: Counts
) -> Counts:
    """Draw the length of the first of some arguments, at least two, that share a total.

    All that share the same total among the same number are drawn from one running sum.
    """
    fractions = _fractions(source, len(total))
    key = arguments * (int(total.max(initial=0)) + 1) + total
    order = np.argsort(key, kind="stable")
    bounds = np.append(np.flatnonzero(np.diff(key[order], prepend=-1)), len(order)).tolist()
    size = np.empty_like(total)
    for begin, end in pairwise(bounds):
        rows = order[begin:end]
        among, shared = int(arguments[rows[0]]), int(total[rows[0]])
        weights = np.cumsum(sums[1][1:shared] * sums[among - 1][shared - 1 : 0 : -1])
        size[rows] = 1 + _pick(weights, fractions[rows])
    return size


def _pick(running: Weights, fractions: Weights) -> Counts:
    """Return indices drawn by the weights with these running sums, never one of weight 0."""
    found: Counts = np.searchsorted(running, fractions * running[-1], side="right")
    return found


def _fractions(source: np.random.BitGenerator, count: int) -> Weights:
    """Return numbers from 0 to 1 - 2^-52, so that a product with one stays below the other."""
    words: Words = source.random_raw(count)
    return (words >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _convolved(left: Weights, right: Weights) -> Weights:
    """Return the convolution, cut off at the longest length, summed in a fixed order."""
    total = np.zeros_like(left)
    for length in np.flatnonzero(left):
        total[length:] += left[length] * right[: len(right) - length]
    return total
