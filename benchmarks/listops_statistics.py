"""What can be counted in ListOps strings, to hold generated ones against released ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.draw import MIN_ARGUMENTS
from lrbench.tasks.listops.expressions import CLOSE, DIGITS, OPERATORS, depths, levels

QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
SHORT, LIMITS = range(1, 13), (50, 100)


def statistics(strings: Strings) -> dict[str, float]:
    """Return named statistics: lengths, depths, operators, arguments, digits and labels.

    `length k` and `depth k` are shares of strings; shares of operators, numbers of arguments
    and digits are among all operators or digits, those of `root arguments k` among the roots.
    """
    counted = [_count(piece) for piece in strings.pieces()]
    operators = np.concatenate([count.operators for count in counted])
    counts = np.sum([count.tokens for count in counted], axis=0)
    names = slice(DIGITS, CLOSE)
    return {
        "strings": len(strings),
        **_lengths(strings.lengths),
        **_depths(np.concatenate([count.depths for count in counted])),
        "operators mean": float(operators.mean()),
        "operators p50": float(np.median(operators)),
        "operators p95": float(np.percentile(operators, 95)),
        "operators max": float(operators.max()),
        **_shares("operator", counts[names], OPERATORS),
        **_arguments("arguments", [count.arities for count in counted]),
        **_arguments("root arguments", [count.root_arities for count in counted]),
        **_shares("digit", counts[:DIGITS], range(DIGITS)),
        **_shares("label", np.bincount(strings.labels, minlength=DIGITS), range(DIGITS)),
    }


@dataclass(frozen=True)
class _Count:
    """Of some strings: operators and depth of each, counts of tokens and numbers of arguments."""

    operators: NDArray[np.int64]
    depths: NDArray[np.int64]
    tokens: NDArray[np.int64]
    arities: NDArray[np.int64]
    root_arities: NDArray[np.int64]


def _count(strings: Strings) -> _Count:
    starts = strings.offsets[:-1]
    opens = (strings.tokens >= DIGITS) & (strings.tokens < CLOSE)
    arities = [np.bincount(level.arities) for level in levels(strings.tokens)]  # the root's last
    return _Count(
        operators=np.add.reduceat(opens, starts, dtype=np.int64),
        depths=np.maximum.reduceat(depths(strings.tokens), starts).astype(np.int64),
        tokens=np.bincount(strings.tokens, minlength=CLOSE + 1),
        arities=_total(arities),
        root_arities=_total(arities[-1:]),
    )


def _total(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the sum of counts of different lengths."""
    total = np.zeros(max(map(len, counts), default=0), dtype=np.int64)
    for count in counts:
        total[: len(count)] += count
    return total


def side_by_side(columns: Mapping[str, dict[str, float]]) -> str:
    """Return statistics of several sets as a table of text, one statistic a line."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [["", *columns]]
    rows += [[name, *(_shown(column.get(name)) for column in columns.values())] for name in names]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        row[0].ljust(widths[0])
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and value > 1 else f"{value:,.4f}"


def _lengths(lengths: NDArray[np.int64]) -> dict[str, float]:
    return {
        "length mean": float(lengths.mean()),
        "length std": float(lengths.std()),
        "length min": float(lengths.min()),
        **{f"length p{q}": float(np.percentile(lengths, q)) for q in QUANTILES},
        "length max": float(lengths.max()),
        **{f"length <= {limit}": float((lengths <= limit).mean()) for limit in LIMITS},
        **{f"length {length}": float((lengths == length).mean()) for length in SHORT},
    }


def _depths(depth: NDArray[np.int64]) -> dict[str, float]:
    counts = np.bincount(depth) / len(depth)
    return {
        "depth mean": float(depth.mean()),
        "depth p95": float(np.percentile(depth, 95)),
        **{f"depth {level}": float(share) for level, share in enumerate(counts)},
    }


def _arguments(name: str, counts: Sequence[NDArray[np.int64]]) -> dict[str, float]:
    total = _total(counts)
    return _shares(name, total[MIN_ARGUMENTS:], range(MIN_ARGUMENTS, len(total)))


def _shares(name: str, counts: NDArray[np.int64], kinds: Sequence[object]) -> dict[str, float]:
    total = max(1, int(counts.sum()))
    return {f"{name} {kind}": int(counts[place]) / total for place, kind in enumerate(kinds)}
