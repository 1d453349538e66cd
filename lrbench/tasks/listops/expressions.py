"""ListOps expressions: their symbols, how their brackets nest, and what they evaluate to.

An expression is given as tokens, or many at once as arrays. MIN and MAX are plain, SM is the sum
modulo 10, MED the median; of an even number of arguments, the mean of the middle two rounded down:
the median of 3 and 4 is 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import piece_bounds

OPERATORS = ("MIN", "MAX", "MED", "SM")
DIGITS = 10
CLOSE = DIGITS + len(OPERATORS)
# A digit's id is its value; the bracket belongs to the operator's name; "]" ends its arguments.
VOCABULARY = (*map(str, range(DIGITS)), *(f"[{name}" for name in OPERATORS), "]")
MIN, MAX, MED, SM = (VOCABULARY.index(f"[{name}") for name in OPERATORS)
CLASS_NAMES = tuple(map(str, range(DIGITS)))

"""ListOps-O: near-IID and length splits."""


Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OperatorLevel:
    """Operators that stand at one level, with their arguments.

    `operators` are their positions in the tokens, `arguments` the positions of all their direct
    arguments in order (of an operator, where it opens), `starts` where each operator's begin there.
    """

    depth: int
    operators: Positions
    arguments: Positions
    starts: Positions

    @property
    def arities(self) -> Positions:
        """How many direct arguments each operator has."""
        return np.diff(self.starts, append=len(self.arguments))


def depths(tokens: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return how many operators enclose each token, one's own included for "[MAX" and its "]"."""
    opens = (tokens >= DIGITS) & (tokens < CLOSE)
    change = opens.astype(np.int8)
    change[1:] -= tokens[:-1] == CLOSE
    return np.cumsum(change, dtype=np.int32)


def levels(tokens: NDArray[np.uint8]) -> Iterator[OperatorLevel]:
    """Yield the levels of strings that lie one after the other, the deepest first.

    The strings must be right: each bracket closed, each operator with an argument.
    """
    depth = depths(tokens)
    opens = np.flatnonzero((tokens >= DIGITS) & (tokens < CLOSE))
    values = np.flatnonzero(tokens != CLOSE)
    owner = depth[values] - (tokens[values] >= DIGITS)  # the level whose operators own them
    by_level, at = _grouped(opens, depth[opens])
    by_owner, of = _grouped(values, owner)
    for level in range(len(at) - 2, 0, -1):
        operators = by_level[at[level] : at[level + 1]]
        arguments = by_owner[of[level] : of[level + 1]]
        yield OperatorLevel(level, operators, arguments, np.searchsorted(arguments, operators))


def _grouped(positions: Positions, keys: NDArray[np.int32]) -> tuple[Positions, Positions]:
    """Return positions ordered by key, in their order within one, and where each key begins."""
    small = keys.astype(np.uint16) if keys.max(initial=0) < 2**16 else keys  # radix sort
    order = np.argsort(small, kind="stable")
    counts = np.bincount(keys)
    return positions[order], np.concatenate([[0], np.cumsum(counts)])


IDS = {symbol: token for token, symbol in enumerate(VOCABULARY)}


def evaluate(tokens: Sequence[str]) -> int:
    """Return the value, 0 to 9, of an expression such as ["[MAX", "5", "[SM", "3", "9", "]", "]"].

    Raises UserError where it is no expression, with the number of the token that is wrong.
    """
    checked = encode(tokens)
    check_nesting(checked.tolist())
    return int(evaluate_all(checked, np.array([0, len(checked)]))[0])


def encode(tokens: Sequence[str]) -> NDArray[np.uint8]:
    """Return the token ids of printable tokens; UserError for one that ListOps does not have."""
    try:
        return np.fromiter(map(IDS.__getitem__, tokens), np.uint8, len(tokens))
    except KeyError:
        place = next(i for i, token in enumerate(tokens) if token not in IDS)
        raise UserError(
            f"token {place + 1} is {str(tokens[place])[:40]!r}; ListOps has {' '.join(VOCABULARY)}"
        ) from None


def check_nesting(tokens: Sequence[int]) -> None:
    """Raise UserError unless token ids are one whole expression, each operator with arguments."""
    depth, end = 0, len(tokens) - 1
    for place, token in enumerate(tokens):
        if token == CLOSE:
            if not depth:
                raise UserError(f"token {place + 1} is ']' without an operator")
            if tokens[place - 1] >= DIGITS and tokens[place - 1] != CLOSE:
                before = VOCABULARY[tokens[place - 1]]
                raise UserError(f"token {place + 1} is ']' right after {before}")
            depth -= 1
        elif token >= DIGITS:
            depth += 1
        if not depth and place < end:
            raise UserError(f"the expression ends at token {place + 1}, but {end - place} follow")
    if depth or end < 0:
        are = "operator is" if depth == 1 else "operators are"
        raise UserError(f"the expression is cut short: {depth} {are} not closed")


def evaluate_all(tokens: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the values (n,) of right expressions that lie one after the other.

    About a million tokens at a time, so that memory does not grow with their number.
    """
    found = [
        _evaluate_piece(
            tokens[offsets[start] : offsets[stop]], offsets[start:stop] - offsets[start]
        )
        for start, stop in pairwise(piece_bounds(offsets))
    ]
    return np.concatenate(found) if found else np.empty(0, np.uint8)


def _evaluate_piece(tokens: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Work from the deepest level up, all operators of a level at once."""
    values = tokens.copy()  # an operator's value takes the place of its name
    for level in levels(tokens):
        operators = tokens[level.operators]
        arguments = values[level.arguments]
        for operator, reduce in REDUCTIONS.items():
            chosen = np.flatnonzero(operators == operator)
            if len(chosen):
                values[level.operators[chosen]] = reduce(arguments, level, chosen)
    return values[starts]


Reduction = Callable[[NDArray[np.uint8], OperatorLevel, NDArray[np.int64]], NDArray[np.int64]]


def _reduction(function: np.ufunc) -> Reduction:
    """Return what reduces the arguments of the chosen operators of a level by `function`."""

    def reduce(
        arguments: NDArray[np.uint8], level: OperatorLevel, chosen: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        whole: NDArray[np.int64] = function.reduceat(arguments, level.starts, dtype=np.int64)
        return whole[chosen] % DIGITS  # changes sums only

    return reduce


def _median(
    arguments: NDArray[np.uint8], level: OperatorLevel, chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    owner = np.repeat(np.arange(len(level.starts)), level.arities)
    ordered = np.sort(owner * DIGITS + arguments)  # by operator, then by value
    first, arity = level.starts[chosen], level.arities[chosen]
    middle = ordered[first + (arity - 1) // 2] % DIGITS + ordered[first + arity // 2] % DIGITS
    return np.asarray(middle // 2)


REDUCTIONS: dict[int, Reduction] = {
    MIN: _reduction(np.minimum),
    MAX: _reduction(np.maximum),
    MED: _median,
    SM: _reduction(np.add),
}
