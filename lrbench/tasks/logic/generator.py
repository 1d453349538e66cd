"""The released generator's distribution of pairs of formulas, drawn many at a time.

A pair: four of the six variables; two formulas over them by the same rule, each with a budget M of
12. A formula: an entry of (and, or, and, or, and five times nothing) at random; nothing, or M < 2,
is one of the four variables at random; an operator joins two formulas with half the budget (12, 6,
3, 1: at most three levels); either way `not` is put before it with probability 1/3. A pair counts
if neither formula is true everywhere or nowhere.

Source: the behaviour of the generator behind Bowman, Manning & Potts 2015, section 4, as observed.

Candidate i is row i of a counter-based stream (`lrbench.tasks.stream`, SplitMix64 in integer
arithmetic): the corpus is the same on every machine, with every version of numpy and for every
size of the blocks drawn. numpy does not promise this of its Generator's methods.

A formula of at most three binary levels is a tree in fifteen slots. Slot 0 is the root, slots
2i + 1 and 2i + 2 are what slot i joins. A slot holds four bits: what stands there (a variable,
`and`, `or`) and whether `not` stands before it. So a formula is a word of 60 bits, and two formulas
are the same if their words are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.logic.formulas import (
    AND,
    CLOSE,
    EVERYWHERE,
    FIRST_VARIABLE,
    LARGEST_SIZE,
    NOT,
    OPEN,
    OR,
    TRUE_IN,
    VARIABLES,
    Offsets,
    Tokens,
    Worlds,
    contingent,
    relations,
)

SLOTS, JOINING = 15, 7  # how many there are; the first seven may hold and, or
HAS_AND, HAS_OR = len(VARIABLES), len(VARIABLES) + 1  # below these stand the variables
NEGATED = 8

Slots = NDArray[np.uint8]  # (15, n)
Words = NDArray[np.uint64]  # (n,)


def reached(slots: Slots) -> NDArray[np.bool_]:
    """Return which slots a formula has at all: (15, n); what others hold means nothing."""
    there = np.ones(slots.shape, dtype=bool)
    for slot in range(1, SLOTS):
        above = (slot - 1) // 2
        there[slot] = there[above] & (slots[above] % NEGATED >= HAS_AND)
    return there


def to_words(slots: Slots, there: NDArray[np.bool_]) -> Words:
    """Return each formula as one number: (n,)."""
    words = np.zeros(slots.shape[1], dtype=np.uint64)
    for slot in range(SLOTS):
        words |= np.where(there[slot], slots[slot], 0).astype(np.uint64) << np.uint64(4 * slot)
    return words


def from_words(words: Words) -> Slots:
    """Return the slots of formulas that are numbers: (15, n)."""
    return np.stack([(words >> np.uint64(4 * slot)) & 15 for slot in range(SLOTS)]).astype("u1")


def worlds(slots: Slots) -> Worlds:
    """Return where each formula is true: (n,)."""
    true_in = np.array([*TRUE_IN, 0, 0], dtype=np.uint64)
    below: dict[int, Worlds] = {}
    for slot in reversed(range(SLOTS)):
        symbol = slots[slot] % NEGATED
        value = true_in[symbol]
        if slot < JOINING:
            left, right = below.pop(2 * slot + 1), below.pop(2 * slot + 2)
            value = np.where(symbol == HAS_AND, left & right, value)
            value = np.where(symbol == HAS_OR, left | right, value)
        below[slot] = np.where(slots[slot] >= NEGATED, value ^ np.uint64(EVERYWHERE), value)
    return below[0]


def operators(slots: Slots, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many and, or, not each formula has: (n,)."""
    joins = slots % NEGATED >= HAS_AND
    count: NDArray[np.int64] = (there & joins).sum(0) + (there & (slots >= NEGATED)).sum(0)
    return count


def to_tokens(words: Words) -> tuple[Tokens, Offsets]:
    """Return the formulas written out, one after the other, and where each begins: (n + 1,)."""
    slots = from_words(words)
    there = reached(slots)
    lengths = _lengths(slots, there)
    offsets = np.concatenate([[0], np.cumsum(lengths[0])])
    tokens = np.empty(offsets[-1], dtype=np.uint8)
    begins: dict[int, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}
    begins[0] = np.arange(len(words)), offsets[:-1]
    for slot in range(SLOTS):
        rows, start = begins.pop(slot)
        codes = slots[slot, rows]
        inner = _write_not(tokens, start, lengths[slot, rows], codes >= NEGATED)
        joins = codes % NEGATED >= HAS_AND
        tokens[inner[~joins]] = FIRST_VARIABLE + codes[~joins] % NEGATED
        if slot < JOINING:
            rows, inner, codes = rows[joins], inner[joins], codes[joins]
            left, right = lengths[2 * slot + 1, rows], lengths[2 * slot + 2, rows]
            _write_join(tokens, inner, left, right, codes % NEGATED == HAS_AND)
            begins[2 * slot + 1] = rows, inner + 1
            begins[2 * slot + 2] = rows, inner + left + 3
    return tokens, offsets


def _lengths(slots: Slots, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many tokens what stands at each slot takes: (15, n), 0 where nothing is."""
    lengths = 1 + 3 * (slots >= NEGATED).astype(np.int64)
    for slot in reversed(range(JOINING)):
        below = 4 + lengths[2 * slot + 1] + lengths[2 * slot + 2]
        lengths[slot] += np.where(slots[slot] % NEGATED >= HAS_AND, below, 0)
    return np.where(there, lengths, 0)


def _write_not(
    tokens: Tokens, start: Offsets, length: Offsets, negated: NDArray[np.bool_]
) -> Offsets:
    """Write `( not ... )` where there is one; return where what it says no to begins."""
    first, last = start[negated], (start + length)[negated] - 1
    tokens[first], tokens[first + 1], tokens[last] = OPEN, NOT, CLOSE
    return start + 2 * negated


def _write_join(
    tokens: Tokens, start: Offsets, left: Offsets, right: Offsets, is_and: NDArray[np.bool_]
) -> None:
    """Write `( L ( and R ) )` but for L and R, whose lengths are given."""
    middle, end = start + 1 + left, start + left + right + 3
    tokens[start] = tokens[middle] = OPEN
    tokens[middle + 1] = np.where(is_and, AND, OR)
    tokens[end] = tokens[end + 1] = CLOSE


if TYPE_CHECKING:  # torch is imported only to draw
    from torch import Tensor

ACCEPTED = 500_000  # pairs the released generator kept before it removed what it had twice
BLOCK = 1 << 15  # candidates drawn at once
CHOSEN = 4  # variables of a pair
SUBSETS = tuple(combinations(range(len(VARIABLES)), CHOSEN))
ENTRIES = 9  # what an operator is drawn from: two and, two or, five nothing
OUTCOMES = ENTRIES * CHOSEN * 3  # entry, variable and `not` in one draw


@dataclass(frozen=True)
class FormulaPairs:
    """Pairs in the order of their drawing; arrays (n,) all: two formulas, class, size."""

    left: Words
    right: Words
    labels: NDArray[np.uint8]
    sizes: NDArray[np.uint8]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> FormulaPairs:
        """Return some of them, in the order of `rows`."""
        return FormulaPairs(self.left[rows], self.right[rows], self.labels[rows], self.sizes[rows])

    def __len__(self) -> int:
        return len(self.left)


def draw(
    seed: int, accepted: int = ACCEPTED, tell: Callable[[int], None] = lambda done: None
) -> tuple[FormulaPairs, int]:
    """Return (the first `accepted` pairs that count, how many were drawn and did not count).

    `tell` is told now and then how many pairs there are.
    """
    from lrbench.tasks.stream import Stream, integers

    stream = Stream.named(seed, "logic", "made")
    high = _bounds()
    kept: list[FormulaPairs] = []
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


def unique(pairs: FormulaPairs) -> FormulaPairs:
    """Return each pair once, where it stood first."""
    order = np.lexsort((pairs.right, pairs.left))  # stable: of equal pairs the first comes first
    left, right = pairs.left[order], pairs.right[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return pairs.take(np.sort(order[new]))


def _bounds() -> Tensor:
    """Return how many values each of a candidate's draws may have."""
    import torch

    return torch.tensor([len(SUBSETS)] + [OUTCOMES] * (2 * SLOTS))


def _accepted(drawn: NDArray[np.int64]) -> tuple[FormulaPairs, NDArray[np.intp]]:
    """Return the pairs that count and which rows of `drawn` (n, 1 + 2 * 15) they are."""
    sides = []
    for first in (1, 1 + SLOTS):
        slots = _slots(drawn[:, 0], drawn[:, first : first + SLOTS])
        there = reached(slots)
        sides.append((to_words(slots, there), worlds(slots), operators(slots, there)))
    (left, left_worlds, left_size), (right, right_worlds, right_size) = sides
    rows = np.flatnonzero(contingent(left_worlds) & contingent(right_worlds))
    labels = relations(left_worlds[rows], right_worlds[rows])
    sizes = np.minimum(np.maximum(left_size, right_size), LARGEST_SIZE)[rows].astype(np.uint8)
    return FormulaPairs(left[rows], right[rows], labels, sizes), rows


def _slots(subset: NDArray[np.int64], outcomes: NDArray[np.int64]) -> Slots:
    """Return what stands at each slot (15, n), given which variables (n,) and outcomes (n, 15)."""
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
            symbol = (HAS_AND, HAS_OR, HAS_AND, HAS_OR)[entry] if entry < 4 else subset[variable]
            joining[number, outcome] = symbol + negated
            ending[number, outcome] = subset[variable] + negated
    return joining.ravel(), ending.ravel()


def _joined(parts: list[FormulaPairs]) -> FormulaPairs:
    return FormulaPairs(
        np.concatenate([part.left for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.sizes for part in parts]),
    )


_TABLES = _tables()
