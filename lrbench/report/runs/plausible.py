"""Checks of the rows of a published table's csv file, before anything is computed from them.

What `schema` asks of the json files of a run is asked of its rows too. A check returns the first
fault in a few words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lrbench.metrics import ACCURACY
from lrbench.records import KINDS
from lrbench.report.runs.collection import cell_of
from lrbench.report.runs.columns import EVALUATION_COLUMNS, UNFINISHED, Row
from lrbench.report.runs.schema import is_integer, is_length

STATUSES = ("finished", "diverged", "failed", UNFINISHED)
NAMED = ("task", "model", "protocol", "fingerprint", "folder")


def whole(text: str) -> int:
    """Return a whole number that fits 64 bits; ValueError where a text is none."""
    if not is_integer(number := int(text)):
        raise ValueError(text)
    return number


def number(text: str) -> float:
    """Return a number, which may be infinite; ValueError where a text is none. `nan` is none."""
    if math.isnan(value := float(text)):
        raise ValueError(text)
    return value


def run_complaint(rows: Iterable[Row]) -> str | None:
    """Return what is wrong with what rows tell of their runs, None where nothing is."""
    for line, row in enumerate(rows, start=2):
        for name in NAMED:
            if row[name] is None:
                return f"row {line}, column '{name}': empty"
        if row["status"] not in STATUSES:
            return _at(line, row, "status", f"none of {', '.join(STATUSES)}")
        for name in ("seed", "steps"):
            if row[name] is None and (name, row["status"]) != ("steps", "failed"):
                return _at(line, row, name, "no whole number")
    return None


def score_complaint(rows: Iterable[Row], unmeasured: Mapping[str, int]) -> str | None:
    """Return what is wrong with the scores of rows, None where nothing is.

    A loss or an error may be empty, which is how one that was infinite is written. An accuracy lies
    in 0..1; it may be empty only as often as `unmeasured` says of its run: {folder: how often}.
    """
    left = Counter(unmeasured)
    for line, row in enumerate(rows, start=2):
        if row["split"] is None:
            told = next((name for name in EVALUATION_COLUMNS if row[name] is not None), None)
            if told is not None:
                return _at(line, row, "split", f"no split of a row with a {told}")
            continue
        wrong = _score(line, row)
        if wrong is None and row["metric"] == ACCURACY.name and row["value"] is None:
            left[row["folder"]] -= 1
            if left[row["folder"]] < 0:
                wrong = _at(line, row, "value", "no accuracy, which is a number from 0 to 1")
        if wrong is not None:
            return wrong
    return None


def _score(line: int, row: Row) -> str | None:
    for name in ("metric", "which"):
        if row[name] is None:
            return _at(line, row, name, "no name")
    if row["kind"] not in KINDS:
        return _at(line, row, "kind", f"none of {', '.join(KINDS)}")
    if not is_length(row["n"]):
        return _at(line, row, "n", "no count of strings")
    on_dev = row["length"] is None and row["kind"] == "look"  # a look at a split tells no length
    if not on_dev and not is_length(row["length"]):
        return _at(line, row, "length", "no length")
    value = row["value"]
    if row["metric"] == ACCURACY.name and value is not None and not 0 <= value <= 1:
        return _at(line, row, "value", "no accuracy, which is a number from 0 to 1")
    return None


def _at(line: int, row: Row, name: str, what: str) -> str:
    value: Any = row[name]
    text = "empty" if value is None else repr(value)[:40]
    return f"row {line}, column '{name}' of {str(row['folder'])[:200]}: {text}, {what}"


def missing(rows: Sequence[Row], settings: Mapping[str, Any], folders: Iterable[str]) -> list[str]:
    """Return what settings.json tells of and no row has: folders of runs, then of whole cells.

    settings: its part of that name. folders: those of runs that its other parts name.
    """
    there = {str(row["folder"]) for row in rows}
    cells = {cell_of(folder) for folder in there}
    runs = dict.fromkeys([*settings["runs"], *settings["untold"], *folders])
    gone = [folder for folder in runs if folder not in there]
    told = {cell_of(folder) for folder in gone}
    return gone + [cell for cell in settings["cells"] if cell not in cells and cell not in told]
