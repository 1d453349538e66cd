"""How brackets nest, found for many strings at once: the level of each token, and who owns whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.listops.grammar import CLOSE, DIGITS

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """Operators that stand at one level, with their arguments.

    `operators` are their positions in the tokens, `arguments` the positions of all their direct
    arguments in order (of an operator, where it opens), `starts` where each operator's begin there.
    """

    depth: int
    operators: Places
    arguments: Places
    starts: Places

    @property
    def arities(self) -> Places:
        """How many direct arguments each operator has."""
        return np.diff(self.starts, append=len(self.arguments))


def depths(tokens: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return how many operators enclose each token, one's own included for "[MAX" and its "]"."""
    opens = (tokens >= DIGITS) & (tokens < CLOSE)
    change = opens.astype(np.int8)
    change[1:] -= tokens[:-1] == CLOSE
    return np.cumsum(change, dtype=np.int32)


def levels(tokens: NDArray[np.uint8]) -> Iterator[Level]:
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
        yield Level(level, operators, arguments, np.searchsorted(arguments, operators))


def _grouped(places: Places, keys: NDArray[np.int32]) -> tuple[Places, Places]:
    """Return places ordered by key, in their order within one, and where each key begins."""
    small = keys.astype(np.uint16) if keys.max(initial=0) < 2**16 else keys  # radix sort
    order = np.argsort(small, kind="stable")
    counts = np.bincount(keys)
    return places[order], np.concatenate([[0], np.cumsum(counts)])
