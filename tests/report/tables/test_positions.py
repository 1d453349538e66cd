"""The table of every position: a row a cell, the last checkpoint, means over runs."""

from __future__ import annotations

import pandas as pd

from lrbench.records import POSITIONS
from lrbench.report.tables.positions import positions_table

CELL = {"protocol": "fan2024", "task": "group", "model": "lstm", "task_title": "group (S3)"}


def rows_of(folder: str, which: str, sequence: float) -> list[dict[str, object]]:
    reported = [("token", 20, 0.9), ("sequence", 20, sequence), ("token", 10, 1.0)]
    reported += [("prefix", 1, 1.0), ("prefix", 20, sequence)]
    kept = [
        {"split": POSITIONS, "metric": metric, "length": length, "value": value}
        for metric, length, value in reported
    ]
    usual = {"split": "test", "metric": "accuracy", "length": 20, "value": 0.123}
    return [{**row, "folder": folder, "which": which} for row in [*kept, usual]]


def test_a_row_a_cell() -> None:
    runs = pd.DataFrame(
        [
            {**CELL, "fingerprint": name, "folder": f}
            for name, f in (("a", "1"), ("a", "2"), ("b", "3"))
        ]
    )
    frame = pd.DataFrame(
        [*rows_of("1", "last", 0.2), *rows_of("2", "last", 0.4), *rows_of("1", "best", 0.9)]
    )
    (table,) = positions_table("fan2024", runs, frame)
    assert [column.title for column in table.columns][3:] == [
        "length",
        "token",
        "sequence",
        "prefix 1",
        "prefix 20",
    ]
    (row,) = table.rows  # b was not scored at every position
    assert [cell.text for cell in row[:4]] == ["group (S3)", "lstm", "a", "20"]
    assert [cell.values for cell in row[4:]] == [(0.9, 0.9), (0.2, 0.4), (1.0, 1.0), (0.2, 0.4)]


def test_no_table_where_nothing_was_scored_so() -> None:
    frame = pd.DataFrame(rows_of("1", "last", 0.2))
    usual = frame[frame["split"] == "test"]
    assert positions_table("fan2024", pd.DataFrame(), usual) == []
