"""What tells the strings of a split from any others: their hash, their making, and by sight."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from lrbench.tasks.corpus.storage import ARRAYS
from lrbench.tasks.corpus.strings import Strings

ROWS, SYMBOLS = 3, 40  # that are shown of a split: rows, and symbols of a string


@lru_cache(maxsize=64)
def identity(strings: Strings) -> dict[str, Any]:
    """Return what identifies a split; `sha256` is of its files, as split.json has it.

    Of several splits joined, it is of the files they would be.
    """
    return {
        "n": len(strings),
        "sides": strings.sides,
        "made": dict(strings.made),
        "sha256": {
            name: _file_sha256(np.asarray(getattr(strings, name), dtype))
            for name, dtype in ARRAYS.items()
        },
        "rows": [_shown(strings, row) for row in range(min(ROWS, len(strings)))],
    }


def _file_sha256(array: np.ndarray[Any, Any]) -> str:
    """Return the sha256 of the .npy file of an array, without writing it."""
    digest = _Digest()
    np.save(digest, np.ascontiguousarray(array))
    return digest.sha256.hexdigest()


class _Digest:
    """A file that keeps nothing but the hash of what is written."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.sha256.update(data)


def _shown(strings: Strings, row: int) -> str:
    """Return '[MAX 2 9 ] -> 9'; of a pair both strings; long ones are cut."""
    sides = []
    for side in range(strings.sides):
        symbols = [strings.vocabulary[token] for token in strings.row(row, side)[:SYMBOLS].tolist()]
        more = ["..."] if len(strings.row(row, side)) > SYMBOLS else []
        sides.append(" ".join([*symbols, *more]))
    return f"{' | '.join(sides)} -> {strings.class_names[int(strings.labels[row])]}"
