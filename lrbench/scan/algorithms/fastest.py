"""The algorithm that was fastest for recurrences of a kind and size, from a measured table.

fastest.csv was written by `lrbench bench scan --output`; how it came about stands in
docs/decisions/which-scan.md. A size that was not measured goes by the nearest one that was, on a
logarithmic scale, of the same kind on the same kind of device.
"""

from __future__ import annotations

import csv
import hashlib
import math
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from lrbench.scan.transitions import Indexed, Transition, form_of

TABLE = Path(__file__).with_name("fastest.csv")
COLUMNS = ("device", "structure", "block", "indexed", "length", "numbers", "algorithm")


class Size(NamedTuple):
    """What the choice depends on.

    structure: diagonal, blocks, constant_diagonal or constant_blocks, with _complex where they are;
    block: b; indexed: 1 where transitions are looked up; numbers: real numbers of all strings'
    states together.
    """

    device: str
    structure: str
    block: int
    indexed: int
    length: int
    numbers: int


def size_of(transition: Transition, inputs: Tensor, initial: Tensor) -> Size:
    """Return the size of a recurrence; of blocks that are generated, that of blocks."""
    form = form_of(transition)
    index = transition.index if isinstance(transition, Indexed) else None
    length = inputs.shape[1] if index is None else index.shape[1]
    name = ("constant_" if form.constant else "") + ("diagonal" if form.diagonal else "blocks")
    if initial.is_complex():
        name += "_complex"
    block = 1 if form.diagonal else initial.shape[-1]
    numbers = initial.numel() * (2 if initial.is_complex() else 1)
    indexed = int(index is not None and not form.constant)
    return Size(initial.device.type, name, block, indexed, length, numbers)


def fastest(size: Size) -> str | None:
    """Return the algorithm of the nearest size in the table; None where it has nothing alike."""
    found: str | None = _nearest(size)
    return found


def table_digest() -> str:
    """Return what tells this table from another; runs record it."""
    return hashlib.sha256(TABLE.read_bytes()).hexdigest()[:12]


@lru_cache(maxsize=4096)
def _nearest(size: Size) -> str | None:
    alike = [
        (known, algorithm)
        for known, algorithm in _table()
        if (known.device, known.structure, known.indexed)
        == (size.device, size.structure, size.indexed)
    ]
    return min(alike, key=lambda row: _distance(row[0], size), default=(None, None))[1]


def _distance(one: Size, other: Size) -> tuple[float, float]:
    """Block sizes first: they change what an algorithm does; then length and width together."""
    return (
        abs(math.log2(one.block / other.block)),
        math.hypot(
            math.log2(one.length / max(1, other.length)),
            math.log2(one.numbers / max(1, other.numbers)),
        ),
    )


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[Size, str], ...]:
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        (
            Size(
                row["device"],
                row["structure"],
                *(int(row[name]) for name in ("block", "indexed", "length", "numbers")),
            ),
            row["algorithm"],
        )
        for row in rows
    )
