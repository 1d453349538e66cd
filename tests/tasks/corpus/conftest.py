"""Small corpora of single strings and of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lrbench.tasks.corpus.strings import Strings

ROWS = [[0, 1, 2], [3], [2, 2, 1, 0], [1, 1], [0], [3, 2, 1, 0, 3]]


def strings(rows: Sequence[Sequence[int]], sides: int = 1, **made: object) -> Strings:
    """Return rows as strings over a, b, c, d; the label of a row is its number modulo 3."""
    return Strings(
        np.array([token for row in rows for token in row], dtype=np.uint8),
        np.cumsum([0, *map(len, rows)]),
        (np.arange(len(rows) // sides) % 3).astype(np.uint8),
        tuple("abcd"),
        ("no", "yes", "both"),
        sides,
        made,
    )


@pytest.fixture
def single() -> Strings:
    return strings(ROWS)


@pytest.fixture
def pairs() -> Strings:
    return strings(ROWS, sides=2)
