"""What the verdicts on splits rest on, and the same runs at the end of their training."""

from __future__ import annotations

from lrbench.report.corpora.columns import Grid
from lrbench.report.corpora.levels import Levels
from lrbench.report.corpora.rows import with_spread
from lrbench.report.output.cells import MISSING, Cell, Column, Table, estimate, interval, spread
from lrbench.report.paper.splits import Split
from lrbench.report.paper.verdict import FEWEST, judge, mean_interval
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.places import View, missing
from lrbench.statistics import mean, runs_upper

LEFT = (Column("split", right=False), Column("model", right=False))


def verdicts_table(grid: Grid, view: View) -> Table:
    """Return a row for each split and model: mean and interval, the paper's number, baselines."""
    other = "last" if view.rule == "best" else "best"
    rows = tuple(
        (Cell(split.title), Cell(label), *_row(view, entry, split, grid.levels[split], other))
        for split in grid.splits
        for label in grid.labels
        if (entry := grid.entries.get((label, split))) is not None and len(entry.runs)
    )
    columns = (
        *LEFT,
        *(Column(title) for title in ("n", "strings", "mean", "95 % interval", "paper")),
        Column("verdict", right=False),
        *(Column(title) for title in (other, "chance", "up to")),
        Column("best baseline", right=False),
    )
    notes = (
        "95 % interval: Student's t over runs, cut at 0 and 1, where there are three or more;"
        f" {other}: the checkpoint of that rule on the same strings",
        "chance: the better of uniform and majority; up to: what 97.5 % of means of n such"
        " guessers stay up to, on as many strings; best baseline: the highest accuracy of those at"
        " the foot of the table above",
    )
    return Table(f"What the verdicts rest on ({view.rule})", columns, rows, notes)


def _row(view: View, entry: Entry, split: Split, level: Levels, other: str) -> tuple[Cell, ...]:
    evidence = entry.evidence(view.rule, "test", view.chance[split.name])
    verdict = judge(evidence, entry.reference, entry.comparable(view.rule))
    values, digits, guesser = evidence.values, view.digits, evidence.guesser
    ends = interval(mean_interval(values), digits) if len(values) >= FEWEST else MISSING
    strings = entry.strings(view.rule, "test")
    upper = (
        runs_upper(guesser.p, guesser.strings, 1, len(values))[0] if guesser and values else None
    )
    return (
        Cell(f"{len(values)}"),
        Cell(MISSING if strings is None else f"{strings:,}"),
        estimate(mean(values), None, digits) if values else Cell(missing(entry)),
        Cell(ends),
        Cell(with_spread(entry.reference) if entry.reference else MISSING),
        Cell(str(verdict or MISSING), mark=str(verdict or "")),
        spread(entry.values(other, "test"), digits),
        *(
            Cell() if value is None else Cell(f"{value:.3f}", (value,))
            for value in (level.chance, upper)
        ),
        Cell(f"{level.best[1]:.3f} {level.best[0]}" if level.best else MISSING),
    )
