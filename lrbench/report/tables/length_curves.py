"""Tables of accuracy against length: how far each model knows its task, and its score beyond.

Made of every score of a checkpoint on fresh strings: those of its run, and those that `lrbench
evaluate` added later. Where a length was scored twice, the score on more strings counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lrbench.errors import UserError
from lrbench.metrics import ACCURACY
from lrbench.protocols.base import declared
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import with_unlike
from lrbench.report.grids.lengths import LengthGrid, check_rule, rule_legend
from lrbench.report.grids.selection import select
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, spread
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import Answer
from lrbench.report.tables.horizons import (
    EVERYWHERE,
    ONE_WRONG,
    OTHER,
    Reached,
    certified_cells,
    certified_columns,
    certified_legend,
    horizon_cells,
    of_other_weights,
    of_rule,
    reached,
)
from lrbench.report.tables.notes import capped, selection_notes
from lrbench.statistics import FEWEST_STRINGS, SOLVED, mean
from lrbench.tables import TableSpec

EVERYWHERE_REACHED = Reached(10**18, True, EVERYWHERE)  # beyond every length that can be scored
NOTHING_SAID = (
    "far below chance: where a state has grown beyond what its numbers can hold, there is no"
    " answer, and none is a wrong one; result.json tells what float64 makes of the first length"
    " that fails"
)


class Scored(NamedTuple):
    """A checkpoint's accuracy at one length, on `n` fresh strings; `chance` is nan if unknown."""

    length: int
    value: float
    n: int
    chance: float


ByRun = dict[str, dict[int, Scored]]  # a run's folder, a length


@dataclass(frozen=True)
class LengthCurve:
    """A cell of the table that is shown: its runs' scores by the rules that are shown."""

    filled: FilledCell
    by_rule: dict[str, ByRun]
    answers: dict[str, list[Answer | None]]  # of each rule, of each run

    def values(self, rule: str, length: int) -> list[float]:
        return [run[length].value for run in self.by_rule[rule].values() if length in run]

    def horizons(self, rule: str) -> list[Reached]:
        """Return how far each run's checkpoint got, in the order of the runs.

        One that is certified gets everywhere, unless what was trained again are other weights.
        """
        runs = zip(self.by_rule[rule].values(), self.answers[rule], strict=True)
        return [
            EVERYWHERE_REACHED
            if answer is not None and answer.verdict == "certified" and not of_other_weights(answer)
            else reached((s.length, s.value, s.n) for s in run.values())
            for run, answer in runs
            if run
        ]


def length_tables(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> list[Table]:
    """Return the horizons of every cell that solves its task, then accuracy by length of each task.

    By `rule`, and by `last` beside it. The arguments are those of `matrix.paper_tables`. Raises
    UserError for an unknown rule or fingerprint, and for a table over a corpus.
    """
    filled_cells, curves = _curves(collection, spec, rule, references, choose)
    tasks = tuple(spec.columns) or tuple(dict.fromkeys(filled.task for filled in filled_cells))
    there = tuple(filled for filled in filled_cells if len(filled.runs) or filled.rivals)
    grid = LengthGrid((), there, there, rule, digits)
    notes = [*_horizon_legend(), *_unsolved(grid, curves), *_without_runs(filled_cells)]
    notes += selection_notes(grid, collection, spec.protocol)
    tables = [_horizons(spec.title, curves, rule, notes)]
    for task in tasks:
        of_task = [curve for curve in curves if curve.filled.task == task]
        tables += [_of_task(of_task, name, digits) for name in _rules(rule) if of_task]
    return tables


def solving(
    collection: Collection, spec: TableSpec, rule: str, choose: Sequence[str] = ()
) -> Collection:
    """Return only the runs that `length_tables` shows, for its figures."""
    _, curves = _curves(collection, spec, rule, None, choose)
    folders = {folder for curve in curves for folder in curve.filled.runs["folder"]}
    runs, frame = (one[one["folder"].isin(folders)] for one in (collection.runs, collection.frame))
    return replace(collection, runs=runs, frame=frame)


def _curves(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None,
    choose: Sequence[str],
) -> tuple[list[FilledCell], list[LengthCurve]]:
    """The cells of the table, and those of them that solve their task at the test length."""
    if declared(spec.protocol).by_split:
        raise UserError(f"table '{spec.name}': kind 'lengths' goes with no corpus")
    check_rule(spec.protocol, rule)
    filled_cells = select(collection, spec, choose, references)
    by_rule = {name: _scores(collection.frame, name) for name in _rules(rule)}
    curves = []
    for filled in filled_cells:
        if _solved(filled, rule):
            folders = filled.runs["folder"]
            mine = {r: {f: runs.get(f, {}) for f in folders} for r, runs in by_rule.items()}
            known = {r: of_rule(collection.answers, folders, r) for r in by_rule}
            curves.append(LengthCurve(filled, mine, known))
    return filled_cells, curves


def horizons_by_cell(
    collection: Collection, spec: TableSpec, rule: str
) -> Iterator[tuple[FilledCell, list[Reached]]]:
    """Yield each cell of a table with how far its runs got by a rule, solved or not.

    Cells over a corpus, of errors and without runs have none.
    """
    if declared(spec.protocol).by_split:
        return
    scores = _scores(collection.frame, rule)
    for filled in select(collection, spec):
        if filled.metric.counts and len(filled.runs):
            folders = filled.runs["folder"]
            mine = {rule: {f: scores[f] for f in folders if f in scores}}
            known = {rule: of_rule(collection.answers, mine[rule], rule)}
            yield filled, LengthCurve(filled, mine, known).horizons(rule)


def _rules(rule: str) -> list[str]:
    return list(dict.fromkeys([rule, OTHER]))


def _solved(filled: FilledCell, rule: str) -> bool:
    values = filled.values(rule, "test")
    return filled.metric.counts and max(values, default=0.0) >= SOLVED


def _scores(frame: pd.DataFrame, rule: str) -> ByRun:
    """The scores of the checkpoint that `rule` kept, of each run.

    A score that stands under another rule is one of these too, where both kept the same update.
    """
    fresh = frame[
        (frame["kind"] == "test")
        & (frame["metric"] == ACCURACY.name)
        & frame["value"].notna()
        & frame["length"].notna()
    ]
    steps = fresh[fresh["which"] == rule].groupby("folder")["checkpoint_step"].first()
    same = (fresh["checkpoint_step"] == fresh["folder"].map(steps)).fillna(False).astype(bool)
    mine = fresh[(fresh["which"] == rule) | same]
    found: ByRun = {}
    columns = [mine[name].tolist() for name in ("folder", *Scored._fields)]
    for folder, length, *score_fields in zip(*columns, strict=True):
        score = Scored(int(length), *score_fields)
        known = found.setdefault(folder, {}).setdefault(score.length, score)
        if score.n > known.n:
            found[folder][score.length] = score
    return found


def _horizons(title: str, curves: Sequence[LengthCurve], rule: str, notes: Sequence[str]) -> Table:
    """A row a cell: how far its runs got, by each rule."""
    rules = _rules(rule)
    searched = [r for r in rules if any(any(curve.answers[r]) for curve in curves)]
    rows = []
    for curve in curves:
        cells = [cell for name in rules for cell in horizon_cells(curve.horizons(name))]
        cells += [cell for name in searched for cell in certified_cells(curve.answers[name])]
        filled = curve.filled
        rows.append(
            (
                PrintedCell(filled.task),
                PrintedCell(filled.label),
                with_unlike(PrintedCell(str(len(filled.runs))), filled),
                *cells,
            )
        )
    titles = [name for rule in rules for name in (f"horizons: {rule}", f"median: {rule}")]
    columns = [Column("task", right=False), Column("model", right=False), Column("runs")]
    columns += [Column(title) for title in titles]
    columns += [column for name in searched for column in certified_columns(name)]
    legend = certified_legend(a for c in curves for name in searched for a in c.answers[name])
    return Table(title, tuple(columns), tuple(rows), (*notes, *legend))


def _of_task(curves: Sequence[LengthCurve], rule: str, digits: int) -> Table:
    """A row a model, a column a length, and chance below."""
    runs = [run for curve in curves for run in curve.by_rule[rule].values()]
    lengths = sorted({length for run in runs for length in run})
    rows = []
    for curve in curves:
        scores = [spread(curve.values(rule, length), digits) for length in lengths]
        _, median = horizon_cells(curve.horizons(rule))
        rows.append((PrintedCell(curve.filled.label), *scores, median))
    rows.append(
        (PrintedCell("chance"), *(_chance(runs, length) for length in lengths), PrintedCell())
    )
    titles = [f"{length:,}" for length in lengths]
    columns = [Column("model", right=False), *map(Column, titles), Column("horizon")]
    legend = rule_legend(rule, (curve.filled for curve in curves))
    notes = [
        f"accuracy at each length on {_strings(runs)} fresh strings of the checkpoint of the rule"
        f" {rule} ({legend}), mean ± sample std (n) over n runs; horizon: of the median"
        " run; chance: the best baseline"
    ]
    if any(_says_nothing(score) for run in runs for score in run.values()):
        notes.append(NOTHING_SAID)
    title = f"{_title(curves[0].filled)} against length: {rule}"
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _says_nothing(score: Scored) -> bool:
    """Whether an accuracy is so far below chance that guessing would beat it."""
    return bool(pd.notna(score.chance)) and score.value < score.chance / 2


def _chance(runs: Iterable[dict[int, Scored]], length: int) -> PrintedCell:
    found = [run[length].chance for run in runs if length in run]
    known = [float(value) for value in found if pd.notna(value)]
    return PrintedCell(f"{mean(known):.3f}", (mean(known),)) if known else PrintedCell()


def _strings(runs: Iterable[dict[int, Scored]]) -> str:
    counts = sorted({int(score.n) for run in runs for score in run.values()})
    if not counts:
        return MISSING
    return " to ".join(f"{n:,}" for n in dict.fromkeys([counts[0], counts[-1]]))


def _title(filled: FilledCell) -> str:
    titles: list[Any] = filled.runs["task_title"].dropna().tolist()
    return str(titles[0]) if titles else filled.task


def _horizon_legend() -> list[str]:
    return [
        "horizon of a run: the longest tested length up to which it passes every tested one, with"
        f" an accuracy whose 95 % Wilson lower bound is at least {SOLVED}; >= that it failed"
        " nowhere; < that it fails at the shortest; the median of an even number of runs is the"
        f" lower of the middle two; {ONE_WRONG} a single wrong string at the next length ended it",
        f"scores on fewer than {FEWEST_STRINGS} strings decide no horizon: not even a perfect one"
        " passes",
    ]


def _unsolved(grid: LengthGrid, curves: Sequence[LengthCurve]) -> list[str]:
    """Name the cells with runs of which none solves its task: they are no rows."""
    shown = {id(curve.filled) for curve in curves}
    lines = []
    for filled in grid.filled_cells:
        if id(filled) in shown or not len(filled.runs):
            continue
        values = filled.values(grid.rule, "test")
        best = f"best of {len(values)} {max(values):.{grid.digits}f}" if values else "no accuracy"
        at = f" at {filled.length:,}" if filled.length else ""
        lines.append(f"does not reach {SOLVED}{at}: {filled.task} x {filled.label} ({best})")
    return capped(lines, "cells")


def _without_runs(filled_cells: Sequence[FilledCell]) -> list[str]:
    missing = [f"{e.task} x {e.label}" for e in filled_cells if not len(e.runs) and not e.rivals]
    return [f"no run has ended of {', '.join(missing)}"] if missing else []
