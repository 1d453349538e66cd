"""Formulas as the set of worlds where they are true, a bit a world; the relations between them.

A world says of each of six variables whether it is true; there are 64 of them, so a set of worlds
is a word of 64 bits, and `and`, `or`, `not` are what a processor does with words. Between two
formulas stands one of the seven relations of natural logic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError

VARIABLES = ("a", "b", "c", "d", "e", "f")
VOCABULARY = ("(", ")", *VARIABLES, "and", "or", "not")  # index = token
OPEN, CLOSE, AND, OR, NOT = (VOCABULARY.index(token) for token in ("(", ")", "and", "or", "not"))
FIRST_VARIABLE = VOCABULARY.index(VARIABLES[0])
FIRST_OPERATOR = AND  # tokens from here on are operators

RELATIONS = ("=", "<", ">", "^", "|", "v", "#")  # index = class
LARGEST_SIZE = 12  # operators of a pair's longer side; this size stands for all that are larger


Tokens = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Worlds = NDArray[np.uint64]

COUNT = 1 << len(VARIABLES)
EVERYWHERE = (1 << COUNT) - 1
TRUE_IN = tuple(
    sum(1 << world for world in range(COUNT) if world >> variable & 1)
    for variable in range(len(VARIABLES))
)

# What rewriting makes of words: a formula's worlds, and right halves `( and X )`, `( or X )`.
VALUE, RIGHT_AND, RIGHT_OR, END, NOTHING = range(len(VOCABULARY), len(VOCABULARY) + 5)


@dataclass(frozen=True)
class Formula:
    """The worlds where a formula is true, and how many and, or, not it has."""

    worlds: int
    operators: int


def parse(tokens: Sequence[str] | str) -> Formula:
    """Read one formula: a variable, `( not X )` or `( X ( and Y ) )`, likewise with `or`.

    Raises UserError for anything else, with the position of the first word that cannot be.
    """
    tokens = tokens.split() if isinstance(tokens, str) else list(tokens)
    stack: list[str | int | tuple[str, int]] = []
    for position, token in enumerate(tokens, 1):
        if token in VARIABLES:
            stack.append(TRUE_IN[VARIABLES.index(token)])
        elif token not in VOCABULARY:
            raise UserError(
                f"word {position} of a formula, {token[:20]!r}, is not one of:"
                f" {' '.join(VOCABULARY)}"
            )
        elif token != ")":
            stack.append(token)
        else:
            stack[-3:] = [_closed(stack[-3:], position)]
    if len(stack) != 1 or not isinstance(stack[0], int):
        raise UserError(f"a formula of {len(tokens)} words is not one whole: {_short(tokens)}")
    return Formula(stack[0], sum(token in VOCABULARY[FIRST_OPERATOR:] for token in tokens))


def _closed(items: list[str | int | tuple[str, int]], position: int) -> int | tuple[str, int]:
    """Return what a `)` makes of the three items before it."""
    match items:
        case ["(", "not", int(x)]:
            return x ^ EVERYWHERE
        case ["(", ("and" | "or") as operator, int(x)]:
            return str(operator), x
        case ["(", int(x), ("and", int(y))]:
            return x & y
        case ["(", int(x), ("or", int(y))]:
            return x | y
    raise UserError(
        f"word {position} of a formula, ')', closes neither '( not X' nor '( X ( and Y )'"
        " nor '( X ( or Y )'"
    )


def evaluate(tokens: Tokens, offsets: Offsets) -> tuple[Worlds, NDArray[np.bool_]]:
    """Return (worlds (n,), whether it is a formula at all (n,)) of n strings of tokens.

    String i is tokens[offsets[i]:offsets[i + 1]]. All are rewritten at once, from the inside out:
    `( not X )`, `( X ( and Y ) )` become one value each, until nothing can be rewritten.
    """
    kinds = np.insert(tokens, offsets[1:], END)
    values = _VALUES[kinds]
    kinds = _KINDS[kinds]
    while len(starts := np.flatnonzero((kinds[:-3] == OPEN) & (kinds[3:] == CLOSE))):
        made = _MADE[kinds[starts + 1], kinds[starts + 2]]
        starts, made = starts[made != NOTHING], made[made != NOTHING]
        if not len(starts):
            break
        values[starts] = _combined(kinds, values, starts)
        kinds[starts] = made
        keep = np.ones(len(kinds), bool)
        for step in (1, 2, 3):
            keep[starts + step] = False
        kinds, values = kinds[keep], values[keep]
    ends = np.flatnonzero(kinds == END)
    first = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    return values[first], (ends - first == 1) & (kinds[first] == VALUE)


def _combined(kinds: Tokens, values: Worlds, starts: NDArray[np.intp]) -> Worlds:
    """Return the worlds of what begins at each start with `(` and ends three items on."""
    first, second = kinds[starts + 1], kinds[starts + 2]
    x, y = values[starts + 1], values[starts + 2]
    both = np.where(second == RIGHT_AND, x & y, x | y)
    return np.where(first == VALUE, both, np.where(first == NOT, ~y, y))


def count_operators(tokens: Tokens, offsets: Offsets) -> NDArray[np.int64]:
    """Return how many and, or, not each string has: (n,)."""
    before = np.concatenate([[0], np.cumsum(tokens >= FIRST_OPERATOR)])
    return np.diff(before[offsets])


def _short(tokens: Sequence[str]) -> str:
    text = " ".join(tokens)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _tables() -> tuple[Tokens, Worlds, Tokens]:
    """Return token -> kind, token -> worlds, and (second, third kind in brackets) -> kind."""
    kinds = np.arange(NOTHING + 1, dtype=np.uint8)
    values = np.zeros(NOTHING + 1, dtype=np.uint64)
    for number, worlds in enumerate(TRUE_IN):
        kinds[FIRST_VARIABLE + number] = VALUE
        values[FIRST_VARIABLE + number] = worlds
    made = np.full((NOTHING + 1, NOTHING + 1), NOTHING, dtype=np.uint8)
    made[NOT, VALUE] = made[VALUE, RIGHT_AND] = made[VALUE, RIGHT_OR] = VALUE
    made[AND, VALUE], made[OR, VALUE] = RIGHT_AND, RIGHT_OR
    return kinds, values, made


_KINDS, _VALUES, _MADE = _tables()


def relation(left_tokens: Sequence[str] | str, right_tokens: Sequence[str] | str) -> str:
    """Return how two formulas are related: one of = < > ^ | v #.

    With A and B the worlds where they are true: = the same; < A within B; > B within A; ^ nowhere
    both, everywhere one; | nowhere both; v everywhere one; # none of these. Raises UserError for
    words that are no formula, and for one that is true everywhere or nowhere: those stand in
    several relations at once, and the data have none.

    Source: MacCartney & Manning 2009; Bowman, Manning & Potts 2015, section 2.
    """
    left, right = parse(left_tokens).worlds, parse(right_tokens).worlds
    for side, worlds in (("left", left), ("right", right)):
        if worlds in (0, EVERYWHERE):
            where = "everywhere" if worlds else "nowhere"
            raise UserError(
                f"the {side} formula is true {where}; relations are between formulas that are true"
                " somewhere and false somewhere"
            )
    return RELATIONS[int(relations(np.array([left], "u8"), np.array([right], "u8"))[0])]


def relations(left: Worlds, right: Worlds) -> NDArray[np.uint8]:
    """Return the class of each pair of sets of worlds, an index into RELATIONS: (n,).

    Neither may be empty or everything (`contingent`).
    """
    both = left & right
    disjoint, exhaustive = both == 0, (left | right) == EVERYWHERE
    conditions = [
        left == right,
        both == left,
        both == right,
        disjoint & exhaustive,
        disjoint,
        exhaustive,
    ]
    return np.select(conditions, range(6), 6).astype(np.uint8)


def contingent(worlds: Worlds) -> NDArray[np.bool_]:
    """Return which sets of worlds are neither empty nor everything."""
    somewhere: NDArray[np.bool_] = (worlds != 0) & (worlds != EVERYWHERE)
    return somewhere
