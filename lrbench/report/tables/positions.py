"""How runs do at every position, as a report tells it: tokens, whole strings, prefixes."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from lrbench.records import POSITIONS
from lrbench.report.output.cells import Column, PrintedCell, Table, spread
from lrbench.report.runs.columns import CELL

RULE = "last"
HEADS = tuple(Column(name, right=False) for name in ("task", "model", "configuration"))
NOTE = (
    "every position of fresh strings, the last checkpoint, mean ± sample std (n) over n runs;"
    " token: the share of positions that are right; sequence: of strings that are right at all of"
    " them; prefix t: of strings that are right at all up to position t"
)

NOTE_EXACT = (
    "strings that are right at every scored position, the last checkpoint, mean ± sample std (n)"
    " over n runs; accuracies above are the share of scored positions"
)


def positions_table(protocol: str, runs: pd.DataFrame, frame: pd.DataFrame) -> list[Table]:
    """Return tables of the cells that were scored at every position, none where none was."""
    known = frame[(frame["split"] == POSITIONS) & (frame["which"] == RULE) & frame["value"].notna()]
    whole = known["metric"] == "exact"
    tables = []
    if not known[~whole].empty:
        tables.append(_prefixes(f"{protocol}: every position", runs, known[~whole]))
    if not known[whole].empty:
        tables.append(_exact(f"{protocol}: several answers", runs, known[whole]))
    return tables


def _prefixes(title: str, runs: pd.DataFrame, known: pd.DataFrame) -> Table:
    """Tokens, sequences and prefixes, of tasks that ask at every position."""
    prefixes = known[known["metric"] == "prefix"]
    curve = sorted({int(length) for length in prefixes["length"]})
    rows = []
    for names, mine in _cells(runs, known):
        longest = int(mine.loc[mine["metric"] == "prefix", "length"].max())
        whole = [_spread(mine, metric, longest) for metric in ("token", "sequence")]
        steps = [_spread(mine, "prefix", length) for length in curve]
        rows.append((*names, PrintedCell(f"{longest:,}"), *whole, *steps))
    titles = ["length", "token", "sequence", *(f"prefix {length:,}" for length in curve)]
    return Table(title, (*HEADS, *map(Column, titles)), tuple(rows), (NOTE,))


def _exact(title: str, runs: pd.DataFrame, known: pd.DataFrame) -> Table:
    """Strings right at every scored position, of tasks with several answers, by length."""
    lengths = sorted({int(length) for length in known["length"]})
    rows = [
        (*names, *(_spread(mine, "exact", length) for length in lengths))
        for names, mine in _cells(runs, known)
    ]
    titles = (Column(f"exact {length:,}") for length in lengths)
    return Table(title, (*HEADS, *titles), tuple(rows), (NOTE_EXACT,))


def _cells(
    runs: pd.DataFrame, known: pd.DataFrame
) -> Iterator[tuple[tuple[PrintedCell, ...], pd.DataFrame]]:
    """Yield what names each cell that has scores among `known`, and these."""
    for _, cell in runs.groupby(CELL, sort=True):
        mine = known[known["folder"].isin(set(cell["folder"]))]
        if not mine.empty:
            names = [str(cell[name].iloc[0]) for name in ("task_title", "model", "fingerprint")]
            yield tuple(map(PrintedCell, names)), mine


def _spread(rows: pd.DataFrame, metric: str, length: int) -> PrintedCell:
    there = rows[(rows["metric"] == metric) & (rows["length"] == length)]
    return spread([float(value) for value in there["value"]])
