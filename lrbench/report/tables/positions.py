"""How runs do at every position, as a report tells it: tokens, whole strings, prefixes."""

from __future__ import annotations

import pandas as pd

from lrbench.records import POSITIONS
from lrbench.report.output.cells import Column, PrintedCell, Table, spread
from lrbench.report.runs.columns import CELL

RULE = "last"
NOTE = (
    "every position of fresh strings, the last checkpoint, mean ± sample std (n) over n runs;"
    " token: the share of positions that are right; sequence: of strings that are right at all of"
    " them; prefix t: of strings that are right at all up to position t"
)


def positions_table(protocol: str, runs: pd.DataFrame, frame: pd.DataFrame) -> list[Table]:
    """Return a row for each cell that was scored at every position, or no table where none was."""
    known = frame[(frame["split"] == POSITIONS) & (frame["which"] == RULE) & frame["value"].notna()]
    if known.empty:
        return []
    prefixes = known[known["metric"] == "prefix"]
    curve = sorted({int(length) for length in prefixes["length"]})
    rows = []
    for _, cell in runs.groupby(CELL, sort=True):
        mine = known[known["folder"].isin(set(cell["folder"]))]
        if mine.empty:
            continue
        longest = int(mine.loc[mine["metric"] == "prefix", "length"].max())
        whole = [_spread(mine, metric, longest) for metric in ("token", "sequence")]
        told = [str(cell[name].iloc[0]) for name in ("task_title", "model", "fingerprint")]
        steps = [_spread(mine, "prefix", length) for length in curve]
        rows.append((*map(PrintedCell, (*told, f"{longest:,}")), *whole, *steps))
    heads = [Column(name, right=False) for name in ("task", "model", "configuration")]
    titles = ["length", "token", "sequence", *(f"prefix {length:,}" for length in curve)]
    columns = (*heads, *map(Column, titles))
    return [Table(f"{protocol}: every position", columns, tuple(rows), (NOTE,))]


def _spread(rows: pd.DataFrame, metric: str, length: int) -> PrintedCell:
    there = rows[(rows["metric"] == metric) & (rows["length"] == length)]
    return spread([float(value) for value in there["value"]])
