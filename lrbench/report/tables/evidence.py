"""What the verdicts rest on, and the same checkpoints on fresh strings by every rule."""

from __future__ import annotations

from lrbench.protocols.base import declared
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, estimate, interval
from lrbench.report.paper.verdict import FEWEST, judge, mean_interval
from lrbench.report.tables.filled_cell import FilledCell
from lrbench.report.tables.grid import Grid, left, level, missing
from lrbench.report.tables.lengths import rule_legend
from lrbench.statistics import mean

WORDS = ("verdict", "best baseline")


def verdicts_table(grid: Grid) -> Table:
    """Return a row for each of its cells: mean and interval, the paper's number, what guessing."""
    titles = grid.verdict_titles
    rows = tuple(
        (*head, *(told.get(title, PrintedCell()) for title in titles))
        for entry, head in grid.with_runs()
        for told in [_verdict(grid, entry)]
    )
    columns = (*left(grid.heading), *(Column(title, title not in WORDS) for title in titles))
    title = f"What the verdicts rest on ({grid.number})"
    return Table(title, columns, rows, grid.verdict_notes())


def _verdict(grid: Grid, entry: FilledCell) -> dict[str, PrintedCell]:
    evidence = grid.evidence(entry)
    verdict = judge(evidence, entry.reference, entry.comparable(grid.rule))
    values, digits = evidence.values, grid.digits
    enough = len(values) >= FEWEST
    ends = interval(mean_interval(values, evidence.metric), digits) if enough else MISSING
    return {
        "n": PrintedCell(f"{len(values)}"),
        "mean": estimate(mean(values), None, digits) if values else PrintedCell(missing(entry)),
        "95 % interval": PrintedCell(ends),
        "paper": PrintedCell(entry.reference.at(entry.length) if entry.reference else MISSING),
        "verdict": PrintedCell(str(verdict or MISSING), mark=str(verdict or "")),
        **grid.verdict_cells(entry, evidence),
    }


def fresh_table(grid: Grid) -> Table:
    """Return every rule on fresh strings, the one that is shown first."""
    protocol = next((entry.protocol for entry in grid.entries), "")
    rules = tuple(dict.fromkeys((grid.rule, *declared(protocol).rules)))
    rows = []
    for entry, head in grid.with_runs():
        strings = {entry.strings(name, "test") for name in rules}
        counts = sorted(n for n in strings if n is not None)
        rows.append(
            (
                *head,
                PrintedCell(f"{entry.length:,}" if entry.length else MISSING),
                PrintedCell(" or ".join(f"{n:,}" for n in counts) or MISSING),
                *(grid.fresh(entry, name) for name in rules),
                level(grid.chance.get(entry.task)),
            )
        )
    early = sum(int((entry.runs["stopped"] == "perfect").sum()) for entry, _ in grid.with_runs())
    unseen = "the test series" if grid.tested_where_trained else "the test length"
    columns = (*left(), *(Column(title) for title in ("length", "strings", *rules, "chance")))
    notes = (
        f"{grid.scored_by} at the test length on fresh strings of the checkpoint each rule keeps: "
        + "; ".join(f"{name} = {rule_legend(name, grid.entries)}" for name in rules),
        f"chance: the best measured baseline, mean over runs; id, band and last choose nothing at"
        f" {unseen}" + (f", but a perfect look there ended {early} of the runs" if early else ""),
    )
    return Table("On fresh strings, by every rule", columns, tuple(rows), notes)
