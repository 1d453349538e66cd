"""Pairs of models on one task: how probably a run of one beats a run of the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from lrbench.metrics import Metric
from lrbench.report.output.cells import Column, PrintedCell, Table, estimate
from lrbench.report.tables.filled_cell import FilledCell
from lrbench.report.tables.grid import Grid
from lrbench.statistics import difference_of_means, probability_of_improvement

MOST = 6  # models of which every pair is shown; of more, each against the first


def pairs_table(grid: Grid) -> list[Table]:
    """Return a table of pairs by the grid's rule on fresh strings, none where there is no pair.

    Numbers at different lengths are never compared.
    """
    metrics = dict.fromkeys(entry.metric for entry in grid.entries)
    return [table for metric in metrics for table in _pairs_by(grid, metric)]


def _pairs_by(grid: Grid, metric: Metric) -> list[Table]:
    rule, rows, cut = grid.rule, [], False
    for task in (column.name for column in grid.columns):
        entries = [
            entry for entry in grid.entries if (entry.column, entry.metric) == (task, metric)
        ]
        there = [entry for entry in entries if entry.values(rule, "test")]
        cut = cut or len(there) > MOST
        for first, second in _pairs(there):
            if first.length == second.length:
                rows.append(_row(first, second, rule, metric))
    if not rows:
        return []
    beats, how = (">", "above") if metric.higher_is_better else ("<", "below")
    columns = (
        *(Column(title, right=False) for title in (grid.heading, "A", "B")),
        *(Column(title) for title in ("runs", f"P(A {beats} B)", "mean A - mean B")),
    )
    notes = [
        f"{rule}, on fresh strings; P(A {beats} B): how probably a run of A is {how} a run of B,"
        " ties counted half (0.5: neither), with a 95 % bootstrap interval from three runs each",
        "an interval without width says only that no resample of these few runs tells otherwise",
    ]
    if cut:
        notes.append(f"more than {MOST} models: each is compared with the first only")
    named = rule if metric.counts else f"{rule}, {metric.title}"
    return [Table(f"Pairs of models ({named})", columns, tuple(rows), tuple(notes))]


def _pairs(there: Sequence[FilledCell]) -> list[tuple[FilledCell, FilledCell]]:
    if len(there) > MOST:
        return [(there[0], other) for other in there[1:]]
    return list(combinations(there, 2))


def _row(
    first: FilledCell, second: FilledCell, rule: str, metric: Metric
) -> tuple[PrintedCell, ...]:
    a, b = first.values(rule, "test"), second.values(rule, "test")
    x, y = ([metric.merit(value) for value in values] for values in (a, b))
    return (
        *(PrintedCell(text) for text in (first.column, first.label, second.label)),
        PrintedCell(f"{len(a)}, {len(b)}"),
        estimate(*probability_of_improvement(x, y), 2),
        estimate(*difference_of_means(a, b), 3),
    )
