"""What a corpus of logic looks like in numbers, to hold what we make against what was released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.formulas import (
    FIRST_OPERATOR,
    FIRST_VARIABLE,
    RELATIONS,
    VARIABLES,
    VOCABULARY,
)

MEANS = (
    ("tokens on the left, mean", "left_tokens"),
    ("most", "longest_left"),
    ("tokens of the longer side, mean", "longer_tokens"),
    ("most", "longest"),
    ("operators of both sides, mean", "all_operators"),
    ("different variables, mean", "variables"),
)


@dataclass(frozen=True)
class Statistics:
    """Numbers of n pairs (recursive_models.md 3.6): means, and shares that sum to one."""

    n: int
    relations: dict[str, float]  # share of each
    operators: dict[str, float]  # share of and, or, not among operators
    left_tokens: float  # mean length of the first formula
    longest_left: int
    longer_tokens: float  # mean length of the longer one
    longest: int
    all_operators: float  # mean of both sides together
    variables: float  # mean of how many different ones a pair has


def describe(pairs: Strings) -> Statistics:
    """Return the numbers of at least one pair."""
    left, right = pairs.lengths.T
    longer = np.maximum(left, right)
    tokens = np.bincount(pairs.tokens, minlength=len(VOCABULARY))
    labels = np.bincount(pairs.labels, minlength=len(RELATIONS))
    return Statistics(
        n=len(pairs),
        relations=_shares(RELATIONS, labels),
        operators=_shares(VOCABULARY[FIRST_OPERATOR:], tokens[FIRST_OPERATOR:]),
        left_tokens=float(left.mean()),
        longest_left=int(left.max()),
        longer_tokens=float(longer.mean()),
        longest=int(longer.max()),
        all_operators=float(tokens[FIRST_OPERATOR:].sum() / len(pairs)),
        variables=float(count_variables(pairs).mean()),
    )


def side_by_side(columns: Mapping[str, Strings]) -> str:
    """Return the numbers of several corpora as a table, a column each."""
    found = {name: describe(pairs) for name, pairs in columns.items()}
    rows: list[list[str]] = [["", *found], ["pairs", *(f"{one.n:,}" for one in found.values())]]
    for field in ("relations", "operators"):
        for name in getattr(next(iter(found.values())), field):
            rows.append([name, *(f"{getattr(one, field)[name]:.4f}" for one in found.values())])
    for label, field in MEANS:
        values = [getattr(one, field) for one in found.values()]
        rows.append([label, *(f"{v:.2f}" if isinstance(v, float) else str(v) for v in values)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        row[0].ljust(widths[0])
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def _shares(names: Sequence[str], counts: NDArray[np.int64]) -> dict[str, float]:
    total = max(1, int(counts.sum()))
    return {name: int(count) / total for name, count in zip(names, counts, strict=True)}


def count_variables(pairs: Strings) -> NDArray[np.uint8]:
    """Return how many different variables each pair has (n,)."""
    number = pairs.tokens.astype(np.int64) - FIRST_VARIABLE
    is_variable = (number >= 0) & (number < len(VARIABLES))
    seen = np.where(is_variable, 1 << np.where(is_variable, number, 0), 0)
    count: NDArray[np.uint8] = np.bitwise_count(np.bitwise_or.reduceat(seen, pairs.offsets[:-1:2]))
    return count
