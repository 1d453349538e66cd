"""Strings that are right throughout: up to each position, and the depth that a length needs.

Two kinds of table. `prefixes`: the curve of prefix(t), beside the points that the paper prints.
`depths`: one model with more and more layers, and the fewest that are enough (Merrill et al. 2024:
a length is given, nothing is extrapolated).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pandas as pd

from lrbench.errors import UserError
from lrbench.records import POSITIONS
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import with_unlike
from lrbench.report.grids.selection import select
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, spread
from lrbench.report.output.display import plural
from lrbench.report.paper.reference import printed_prefixes
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.notes import other_settings
from lrbench.statistics import mean
from lrbench.tables import TableSpec

LAYERS = "model.layers"
Curve = dict[int, list[float]]  # position -> prefix(t) of each run


def prefix_table(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> Table:
    """Return prefix(t) by position t: a row a cell, below it the paper's curve.

    The arguments are those of `matrix.paper_tables`.
    """
    filled_cells = select(collection, spec, choose, references)
    curves = [_curve(collection.frame, filled, rule) for filled in filled_cells]
    paper = [
        printed_prefixes(filled.task, spec.paper, cell.reference or filled.model, references)
        for cell, filled in zip(spec.cells, filled_cells, strict=True)
    ]
    columns = sorted({*(t for one in curves for t in one), *(t for one in paper for t in one)})
    rows: list[tuple[PrintedCell, ...]] = []
    for filled, curve, points in zip(filled_cells, curves, paper, strict=True):
        ours = (_marked(_at(curve, t, digits), filled) for t in columns)
        rows.append((PrintedCell(filled.label), PrintedCell("ours"), *ours))
        if points:
            theirs = (PrintedCell(points.get(t, MISSING)) for t in columns)
            rows.append((PrintedCell(filled.label), PrintedCell("paper"), *theirs))
    notes = (
        f"prefix(t): the share of test strings that are right at all positions up to t, of the"
        f" checkpoint of the rule {rule}, mean ± sample std (n) over n runs",
        "a..b: t is between two positions that are recorded; prefix(t) only falls, so it is there",
        *other_settings(filled_cells),
    )
    heads = [Column("row", right=False), Column("whose", right=False)]
    positions = [Column(f"{t:,}") for t in columns]
    return Table(f"{spec.title}: prefix(t)", (*heads, *positions), tuple(rows), notes)


def depth_table(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> Table:
    """Return accuracy by number of layers, and the fewest layers that reach the threshold.

    The threshold is `protocol.stop_at` of the runs. The arguments are those of
    `matrix.paper_tables`. Cells of one label are one row; each sets `model.layers`.
    """
    filled_cells = select(collection, spec, choose, references)
    asked = [_layers(cell.overrides) for cell in spec.cells]
    depths = sorted(set(asked))
    rows = []
    pairs = sorted(zip(asked, filled_cells, strict=True), key=lambda pair: _row(pair[1]))
    for label, group in groupby(pairs, key=lambda pair: _row(pair[1])):
        by_depth = dict(group)
        scores = {n: filled.values(rule, "test") for n, filled in by_depth.items()}
        cells = (_marked(spread(scores.get(n, []), digits), by_depth.get(n)) for n in depths)
        needed = PrintedCell(depth_needed(scores, _threshold(by_depth.values())))
        unlike = [one for n, one in by_depth.items() if scores[n] and one.unlike is not None]
        needed = with_unlike(needed, unlike[0]) if unlike and needed.text != MISSING else needed
        rows.append((PrintedCell(label), *cells, needed))
    notes = (
        f"strings right throughout at the longest training length, of the checkpoint of the rule"
        f" {rule}, mean ± sample std (n) over n runs",
        "depth needed: the fewest layers whose mean is at least protocol.stop_at; <= where one with"
        " fewer layers has no run, > where the deepest with a run is not enough",
        *other_settings(filled for _, filled in pairs),
    )
    heads = (
        Column("row", right=False),
        *(Column(f"{n} layers" if n > 1 else "1 layer") for n in depths),
        Column("depth needed"),
    )
    return Table(f"{spec.title}: depth needed", heads, tuple(rows), notes)


def by_layers(spec: TableSpec) -> TableSpec:
    """Return a table of depths with a row for each depth: elsewhere a row has one cell a task."""
    cells = (
        replace(
            cell, label=f"{cell.label or cell.model}, {plural(_layers(cell.overrides), 'layer')}"
        )
        for cell in spec.cells
    )
    return replace(spec, cells=tuple(cells))


def depth_needed(scores: Mapping[int, Sequence[float]], threshold: float | None) -> str:
    """Return the fewest layers whose mean score is at least `threshold`, as text."""
    ended = [n for n in sorted(scores) if scores[n]]
    if threshold is None or not ended:
        return MISSING
    enough = next((n for n in ended if mean(scores[n]) >= threshold), None)
    if enough is None:
        return f"> {ended[-1]}"
    return f"{'<= ' if any(n < enough and not scores[n] for n in scores) else ''}{enough}"


def _curve(frame: pd.DataFrame, filled: FilledCell, rule: str) -> Curve:
    mine = frame[
        frame["folder"].isin(filled.runs["folder"])
        & (frame["split"] == POSITIONS)
        & (frame["metric"] == "prefix")
        & (frame["which"] == rule)
        & frame["value"].notna()
    ]
    found: Curve = {}
    for length, value in zip(mine["length"], mine["value"], strict=True):
        found.setdefault(int(length), []).append(float(value))
    return found


def _at(curve: Curve, position: int, digits: int) -> PrintedCell:
    """The mean at a position, or the means at the recorded ones around it."""
    if position in curve:
        return spread(curve[position], digits)
    recorded = sorted(curve)
    at = bisect_left(recorded, position)
    if at in (0, len(recorded)):
        return PrintedCell()
    around = (mean(curve[recorded[at]]), mean(curve[recorded[at - 1]]))
    return PrintedCell("..".join(f"{value:.{digits}f}" for value in around), around)


def _marked(cell: PrintedCell, filled: FilledCell | None) -> PrintedCell:
    """Return `cell` with a pilcrow where it is a number of runs of other settings."""
    return with_unlike(cell, filled) if filled and cell.values else cell


def _layers(overrides: Sequence[str]) -> int:
    typed = [one.partition("=")[2] for one in overrides if one.startswith(f"{LAYERS}=")]
    if not typed or not typed[-1].isdecimal():
        raise UserError(
            f"a cell of a table of depths has no {LAYERS}=N: {' '.join(overrides)}\n"
            f"fix: add {LAYERS}=1 to its overrides, and cells of more layers with the same label"
        )
    return int(typed[-1])


def _row(filled: FilledCell) -> str:
    return filled.label


def _threshold(cells: Iterable[FilledCell]) -> float | None:
    found = (filled.settings.get("protocol.stop_at") for filled in cells)
    return next((float(value) for value in found if value is not None), None)
