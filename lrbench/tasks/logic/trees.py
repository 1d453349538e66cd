"""Formulas of at most three binary levels as trees in fifteen places, many at once.

Place 0 is the root, places 2i + 1 and 2i + 2 are what place i joins. A place holds four bits: what
stands there (a variable, `and`, `or`) and whether `not` stands before it. So a formula is a word
of 60 bits, and two formulas are the same if their words are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.logic.formulas import EVERYWHERE, TRUE_IN, Offsets, Tokens, Worlds
from lrbench.tasks.logic.vocabulary import (
    AND,
    CLOSE,
    FIRST_VARIABLE,
    NOT,
    OPEN,
    OR,
    VARIABLES,
)

PLACES, JOINING = 15, 7  # how many there are; the first seven may hold and, or
HAS_AND, HAS_OR = len(VARIABLES), len(VARIABLES) + 1  # below these stand the variables
NEGATED = 8

Places = NDArray[np.uint8]  # (15, n)
Words = NDArray[np.uint64]  # (n,)


def reached(places: Places) -> NDArray[np.bool_]:
    """Return which places a formula has at all: (15, n); what others hold means nothing."""
    there = np.ones(places.shape, dtype=bool)
    for place in range(1, PLACES):
        above = (place - 1) // 2
        there[place] = there[above] & (places[above] % NEGATED >= HAS_AND)
    return there


def to_words(places: Places, there: NDArray[np.bool_]) -> Words:
    """Return each formula as one number: (n,)."""
    words = np.zeros(places.shape[1], dtype=np.uint64)
    for place in range(PLACES):
        words |= np.where(there[place], places[place], 0).astype(np.uint64) << np.uint64(4 * place)
    return words


def from_words(words: Words) -> Places:
    """Return the places of formulas that are numbers: (15, n)."""
    return np.stack([(words >> np.uint64(4 * place)) & 15 for place in range(PLACES)]).astype("u1")


def worlds(places: Places) -> Worlds:
    """Return where each formula is true: (n,)."""
    true_in = np.array([*TRUE_IN, 0, 0], dtype=np.uint64)
    below: dict[int, Worlds] = {}
    for place in reversed(range(PLACES)):
        kind = places[place] % NEGATED
        value = true_in[kind]
        if place < JOINING:
            left, right = below.pop(2 * place + 1), below.pop(2 * place + 2)
            value = np.where(kind == HAS_AND, left & right, value)
            value = np.where(kind == HAS_OR, left | right, value)
        below[place] = np.where(places[place] >= NEGATED, value ^ np.uint64(EVERYWHERE), value)
    return below[0]


def operators(places: Places, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many and, or, not each formula has: (n,)."""
    joins = places % NEGATED >= HAS_AND
    count: NDArray[np.int64] = (there & joins).sum(0) + (there & (places >= NEGATED)).sum(0)
    return count


def to_tokens(words: Words) -> tuple[Tokens, Offsets]:
    """Return the formulas written out, one after the other, and where each begins: (n + 1,)."""
    places = from_words(words)
    there = reached(places)
    lengths = _lengths(places, there)
    offsets = np.concatenate([[0], np.cumsum(lengths[0])])
    tokens = np.empty(offsets[-1], dtype=np.uint8)
    begins: dict[int, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}
    begins[0] = np.arange(len(words)), offsets[:-1]
    for place in range(PLACES):
        rows, start = begins.pop(place)
        codes = places[place, rows]
        inner = _write_not(tokens, start, lengths[place, rows], codes >= NEGATED)
        joins = codes % NEGATED >= HAS_AND
        tokens[inner[~joins]] = FIRST_VARIABLE + codes[~joins] % NEGATED
        if place < JOINING:
            rows, inner, codes = rows[joins], inner[joins], codes[joins]
            left, right = lengths[2 * place + 1, rows], lengths[2 * place + 2, rows]
            _write_join(tokens, inner, left, right, codes % NEGATED == HAS_AND)
            begins[2 * place + 1] = rows, inner + 1
            begins[2 * place + 2] = rows, inner + left + 3
    return tokens, offsets


def _lengths(places: Places, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many tokens what stands at each place takes: (15, n), 0 where nothing is."""
    lengths = 1 + 3 * (places >= NEGATED).astype(np.int64)
    for place in reversed(range(JOINING)):
        below = 4 + lengths[2 * place + 1] + lengths[2 * place + 2]
        lengths[place] += np.where(places[place] % NEGATED >= HAS_AND, below, 0)
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
