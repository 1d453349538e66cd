"""The table of how far the trees of encoders follow the brackets of their strings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from lrbench.records import TREES
from lrbench.report.grids.grid import Grid, Row, left
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table
from lrbench.report.output.evaluation import TREE_LEGEND, TREE_TITLES
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import UnderWay
from lrbench.statistics import mean


class TreeScore(NamedTuple):
    """One metric of the trees of a run on a split."""

    folder: str
    split: str
    metric: str
    which: str
    value: float
    n: int
    chance: float | None


def tree_tables(grid: Grid, collection: Collection) -> list[Table]:
    """Return a row for each cell whose trees `lrbench evaluate --trees` has looked at, if any."""
    scores = list(_scores(collection))
    if not scores:
        return []
    names = [column.name for column in grid.columns]
    rows: list[Row] = []
    for filled in sorted(grid.filled_cells, key=lambda one: names.index(one.column)):
        folders = {*filled.runs["folder"], *(run.folder for run in filled.under_way)}
        place = (filled.split, grid.rule)
        mine = [s for s in scores if s.folder in folders and (s.split, s.which) == place]
        if mine:
            accuracies = filled.values(grid.rule, "test") or filled.so_far(grid.rule, "test")
            rows.append(_row(filled.column, filled.label, mine, accuracies, grid))
    rows += _elsewhere(grid, collection, scores)
    titles = ("n", "strings", *TREE_TITLES.values(), "accuracy")
    columns = (*left(grid.heading), *map(Column, titles))
    notes = (
        TREE_LEGEND,
        "strings: the first of the split with a bracket inside another, of pairs either side;"
        " accuracy: of the whole split",
    )
    return [Table("Trees beside brackets", columns, tuple(rows), notes, "evidence")] if rows else []


def _elsewhere(grid: Grid, collection: Collection, scores: list[TreeScore]) -> Iterable[Row]:
    """Yield rows of splits that are no columns, such as a released test file."""
    labels = {folder: cell.label for cell in grid.filled_cells for folder in cell.runs["folder"]}
    going = {run.folder: run for cell in grid.filled_cells for run in cell.under_way}
    labels |= {run.folder: cell.label for cell in grid.filled_cells for run in cell.under_way}
    columns = {column.name for column in grid.columns}
    frame = collection.frame
    tests = frame[
        (frame["kind"] == "test") & (frame["which"] == grid.rule) & (frame["metric"] == "accuracy")
    ]
    left_over = [s for s in scores if s.which == grid.rule and s.split not in columns]
    for split in dict.fromkeys(s.split for s in left_over):
        for label in dict.fromkeys(labels.values()):
            mine = [s for s in left_over if s.split == split and labels.get(s.folder) == label]
            if mine:
                folders = {s.folder for s in mine}
                there = tests[tests["folder"].isin(folders) & (tests["split"] == split)]
                accuracies = there["value"].tolist()
                for folder in folders & set(going):
                    accuracies += _accuracy(going[folder], split, grid.rule)
                yield _row(split, label, mine, accuracies, grid)


def _accuracy(run: UnderWay, split: str, rule: str) -> list[float]:
    """Return what an unfinished run has on a split, if that was measured."""
    found = [
        value
        for _, place, metric, value, _, which, kind, *_ in run.scores
        if (place, metric, which, kind) == (split, "accuracy", rule, "test")
    ]
    return found[:1]


def _row(
    column: str, label: str, scores: list[TreeScore], accuracies: list[float], grid: Grid
) -> Row:
    accuracy = f"{mean(accuracies):.{grid.digits}f}" if accuracies else MISSING
    return PrintedCell(column), PrintedCell(label), *_cells(scores), PrintedCell(accuracy)


def _scores(collection: Collection) -> Iterable[TreeScore]:
    frame = collection.frame
    there = frame[frame["kind"] == TREES]
    names = ("folder", "split", "metric", "which", "value", "n", "chance")
    yield from map(TreeScore._make, zip(*(there[name].tolist() for name in names), strict=True))
    for run in collection.under_way:
        for _, split, metric, value, n, which, kind, _, chance, *_ in run.evaluations:
            if kind == TREES:
                yield TreeScore(run.folder, split, metric, which, value, n, chance)


def _cells(scores: list[TreeScore]) -> Row:
    """Return how many runs, of how many strings, and the mean of each metric with its chance."""
    cells = [PrintedCell(f"{len({s.folder for s in scores})}")]
    cells.append(PrintedCell(f"{min(s.n for s in scores):,}"))
    for metric in TREE_TITLES:
        own = [s for s in scores if s.metric == metric]
        if not own:  # a file that lacks it
            cells.append(PrintedCell(MISSING))
            continue
        value = mean([s.value for s in own])
        chances = [s.chance for s in own if s.chance is not None and not math.isnan(s.chance)]
        beside = f" ({mean(chances):.3f})" if chances else ""
        cells.append(PrintedCell(f"{value:.3f}{beside}", (value,)))
    return tuple(cells)
