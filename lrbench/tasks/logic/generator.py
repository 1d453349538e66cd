"""The released generator's distribution of pairs of formulas, drawn many at a time.

A pair: four of the six variables; two formulas over them by the same rule, each with a budget M of
12. A formula: an entry of (and, or, and, or, and five times nothing) at random; nothing, or M < 2,
is one of the four variables at random; an operator joins two formulas with half the budget (12, 6,
3, 1: at most three levels); either way `not` is put before it with probability 1/3. A pair counts
if neither formula is true everywhere or nowhere.

Source: the behaviour of the generator behind Bowman, Manning & Potts 2015, section 4, as observed.

Candidate i is row i of a counter-based stream (`lrbench.tasks.stream`, SplitMix64 in integer
arithmetic): the corpus is the same on every machine, with every version of numpy and whatever the
block it is drawn in, which numpy does not promise of its Generator's methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.logic.relations import contingent, relations
from lrbench.tasks.logic.trees import (
    HAS_AND,
    HAS_OR,
    JOINING,
    NEGATED,
    PLACES,
    Places,
    Words,
    operators,
    reached,
    to_words,
    worlds,
)
from lrbench.tasks.logic.vocabulary import LARGEST_SIZE, VARIABLES

if TYPE_CHECKING:  # torch is imported only to draw
    from torch import Tensor

ACCEPTED = 500_000  # pairs the released generator kept before it removed what it had twice
BLOCK = 1 << 15  # candidates drawn at once
CHOSEN = 4  # variables of a pair
SUBSETS = tuple(combinations(range(len(VARIABLES)), CHOSEN))
ENTRIES = 9  # what an operator is drawn from: two and, two or, five nothing
OUTCOMES = ENTRIES * CHOSEN * 3  # entry, variable and `not` in one draw


@dataclass(frozen=True)
class Pairs:
    """Pairs in the order of their drawing; arrays (n,) all: two formulas, class, size."""

    left: Words
    right: Words
    labels: NDArray[np.uint8]
    sizes: NDArray[np.uint8]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Pairs:
        """Return some of them, in the order of `rows`."""
        return Pairs(self.left[rows], self.right[rows], self.labels[rows], self.sizes[rows])

    def __len__(self) -> int:
        return len(self.left)


def draw(
    seed: int, accepted: int = ACCEPTED, tell: Callable[[int], None] = lambda done: None
) -> tuple[Pairs, int]:
    """Return (the first `accepted` pairs that count, how many were drawn and did not count).

    `tell` is told now and then how many pairs there are.
    """
    from lrbench.tasks.stream import Stream, integers

    stream = Stream.named(seed, "logic", "made")
    high = _bounds()
    kept: list[Pairs] = []
    have = candidates = 0
    while have < accepted:
        drawn = integers(stream.from_row(candidates), 0, BLOCK, 0, len(high), high, "cpu").numpy()
        pairs, rows = _accepted(drawn)
        if have + len(pairs) >= accepted:
            last = accepted - have
            pairs, candidates = pairs.take(slice(last)), candidates + int(rows[last - 1]) + 1
        else:
            candidates += BLOCK
        kept.append(pairs)
        have += len(pairs)
        tell(have)
    return _joined(kept), candidates - accepted


def unique(pairs: Pairs) -> Pairs:
    """Return each pair once, where it stood first."""
    order = np.lexsort((pairs.right, pairs.left))  # stable: of equal pairs the first comes first
    left, right = pairs.left[order], pairs.right[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return pairs.take(np.sort(order[new]))


def _bounds() -> Tensor:
    """Return how many values each of a candidate's draws may have."""
    import torch

    return torch.tensor([len(SUBSETS)] + [OUTCOMES] * (2 * PLACES))


def _accepted(drawn: NDArray[np.int64]) -> tuple[Pairs, NDArray[np.intp]]:
    """Return the pairs that count and which rows of `drawn` (n, 1 + 2 * 15) they are."""
    sides = []
    for first in (1, 1 + PLACES):
        places = _places(drawn[:, 0], drawn[:, first : first + PLACES])
        there = reached(places)
        sides.append((to_words(places, there), worlds(places), operators(places, there)))
    (left, left_worlds, left_size), (right, right_worlds, right_size) = sides
    rows = np.flatnonzero(contingent(left_worlds) & contingent(right_worlds))
    labels = relations(left_worlds[rows], right_worlds[rows])
    sizes = np.minimum(np.maximum(left_size, right_size), LARGEST_SIZE)[rows].astype(np.uint8)
    return Pairs(left[rows], right[rows], labels, sizes), rows


def _places(subset: NDArray[np.int64], outcomes: NDArray[np.int64]) -> Places:
    """Return what stands at each place (15, n), given which variables (n,) and outcomes (n, 15)."""
    joining, ending = _TABLES
    index = subset[:, None] * OUTCOMES + outcomes
    return np.concatenate([joining[index[:, :JOINING]], ending[index[:, JOINING:]]], 1).T.copy()


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return (subset, outcome) -> four bits, where operators may stand and where none may."""
    joining = np.zeros((len(SUBSETS), OUTCOMES), dtype=np.uint8)
    ending = np.zeros_like(joining)
    for number, subset in enumerate(SUBSETS):
        for outcome in range(OUTCOMES):
            rest, entry = divmod(outcome, ENTRIES)
            negation, variable = divmod(rest, CHOSEN)
            negated = NEGATED * (negation == 0)
            kind = (HAS_AND, HAS_OR, HAS_AND, HAS_OR)[entry] if entry < 4 else subset[variable]
            joining[number, outcome] = kind + negated
            ending[number, outcome] = subset[variable] + negated
    return joining.ravel(), ending.ravel()


def _joined(parts: list[Pairs]) -> Pairs:
    return Pairs(
        np.concatenate([part.left for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.sizes for part in parts]),
    )


_TABLES = _tables()
