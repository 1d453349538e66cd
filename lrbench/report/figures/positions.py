"""Positions of a corpus's splits on the axis of a figure, where they differ in length."""

from __future__ import annotations

import re

import pandas as pd

from lrbench.protocols.base import declared
from lrbench.report.runs.collection import by_split

# The splits of a task that make a curve, with the number that sets them apart.
POSITIONS = {"listops": r"len_\d+_(\d+)", "logic": r"test_(\d+)"}
LENGTH = "length"
AXES = {"listops": "longest string, in tokens", "logic": "operators"}


def position(task: str, split: str) -> int | None:
    """Return where a split stands: len_200_300 at 300 tokens, test_8 at 8 operators."""
    found = re.fullmatch(POSITIONS.get(task, "(?!)"), split)
    return int(found.group(1)) if found else None


def axis_of(task: str, protocol: str) -> str:
    """Return what the axis of a figure shows."""
    return AXES.get(task, LENGTH) if declared(protocol).by_split else LENGTH


def by_position(rows: pd.DataFrame) -> pd.DataFrame:
    """Return evaluations with the positions of splits as their lengths; others have no place.

    What is not over a corpus stays as it is.
    """
    mine = by_split(rows["protocol"])
    if not mine.any():
        return rows
    over = rows[mine]
    positions = [position(*names) for names in zip(over["task"], over["split"], strict=True)]
    moved = over.assign(length=pd.array(positions, dtype="Int64"), split="split")
    return pd.concat([rows[~mine], moved[moved["length"].notna()]])
