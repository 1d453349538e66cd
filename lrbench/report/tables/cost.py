"""How often a model solves a task, how its runs spread, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence

from lrbench.report.output.cells import (
    MISSING,
    Column,
    PrintedCell,
    Table,
    estimate,
    share,
    span,
    spread,
)
from lrbench.report.output.display import duration
from lrbench.report.tables.filled_cell import FilledCell
from lrbench.report.tables.grid import Grid, heads, left
from lrbench.report.tables.selection import TUNING
from lrbench.statistics import SOLVED, bootstrap_mean, mean, median, solve_rate

ITERATED = (
    "iterations: linear scans an update until all strings had converged, mean over training; a"
    " whole number where the model is that many"
)
BOUGHT = (
    "train, test: accuracy on fresh strings at the two lengths of the checkpoint kept by {rule}"
)


def solved_table(grid: Grid) -> Table:
    """Return solve rate, mean with its bootstrap interval, median and extremes, fresh strings."""
    rule, digits = grid.rule, grid.digits
    rows = []
    for entry, head in grid.with_runs():
        values = entry.values(rule, "test")
        lost = entry.lost(rule, "test")
        known = entry.metric.counts and (values or lost)
        counted = share(solve_rate(values, lost=lost)) if known else PrintedCell()
        rows.append(
            (
                *head,
                counted,
                estimate(mean(values), bootstrap_mean(values), digits) if values else PrintedCell(),
                *(
                    _number(f(values), digits) if values else PrintedCell()
                    for f in (median, min, max)
                ),
            )
        )
    titles = ("solved", "mean [bootstrap]", "median", "lowest", "highest")
    notes = (
        f"{rule}, on fresh strings at the test length; solved: runs with an accuracy of at least"
        f" {SOLVED} of all that ended, diverged ones too, with the 95 % Wilson interval",
        "bootstrap: 95 % percentile interval of the mean over runs, from three runs up; equal"
        " values give it no width",
    )
    return Table(f"Solve rate ({rule})", _columns(titles), tuple(rows), notes)


def cost_table(grid: Grid) -> Table:
    """Return parameters, state size, updates, time and tuning budget of each cell.

    Where models iterate also what that bought, accuracy at both lengths, beside the iterations.
    """
    rows = []
    iterated = any(entry.runs["iterations"].notna().any() for entry, _ in heads(grid.cells))
    for entry, head in heads(grid.cells):
        seconds = [float(value) for value in entry.runs["train_seconds"].dropna()]
        rows.append(
            (
                *head,
                *(_bought(entry, grid) if iterated else ()),
                *(span(_whole(entry, name)) for name in ("parameters", "state_size", "steps")),
                span([int(n) for n in [entry.settings.get("protocol.max_steps")] if n]),
                PrintedCell(duration(median(seconds)) if seconds else MISSING, tuple(seconds)),
                _speed(entry),
                *([_iterations(entry)] if iterated else []),
                PrintedCell(str(entry.settings.get(TUNING) or MISSING)),
                PrintedCell(", ".join(_statuses(entry))),
                PrintedCell(str(entry.runs["fingerprint"].iloc[0])),
            )
        )
    titles = (
        *(("train", "test") if iterated else ()),
        *("parameters", "state", "updates", "budget", "time", "updates/s"),
        *(("iterations",) if iterated else ()),
        *("tuning", "runs"),
        "configuration",
    )
    notes = (
        "state: floats kept between symbols; updates: done, of a budget; time: of updates alone,"
        " median run; tuning: runs the settings were chosen from, told by the table or the runs, -"
        " where neither does",
        *((ITERATED, BOUGHT.format(rule=grid.rule)) if iterated else ()),
    )
    return Table("Cost", _columns(titles), tuple(rows), notes)


def _bought(entry: FilledCell, grid: Grid) -> tuple[PrintedCell, PrintedCell]:
    """Return the accuracy at the training length and at the test length."""
    trained = entry.values(grid.rule, "test", "train_length")
    return spread(trained, grid.digits), spread(entry.values(grid.rule, "test"), grid.digits)


def _speed(entry: FilledCell) -> PrintedCell:
    """Return the updates a second of the median run."""
    runs = entry.runs[(entry.runs["train_seconds"] > 0) & entry.runs["steps"].notna()]
    pairs = zip(runs["steps"].tolist(), runs["train_seconds"].tolist(), strict=True)
    speeds = tuple(float(steps) / float(seconds) for steps, seconds in pairs)
    return PrintedCell(f"{median(speeds):.3g}", speeds) if speeds else PrintedCell()


def _iterations(entry: FilledCell) -> PrintedCell:
    """Return the mean iterations of all runs, and how many solutions had converged if not all."""
    known = entry.runs[entry.runs["iterations"].notna()]
    values = [float(value) for value in known["iterations"].tolist()]
    if not values:  # a number that was set is no mean
        return PrintedCell(str(entry.settings.get("model.mixer.iterations") or MISSING))
    converged = mean([float(value) for value in known["converged"].fillna(1.0).tolist()])
    share_told = "" if converged == 1 else f", {converged:.1%} converged"
    return PrintedCell(f"{mean(values):.1f}{share_told}", tuple(values))


def _columns(titles: Sequence[str]) -> tuple[Column, ...]:
    return (*left(), *(Column(title, right=title != "configuration") for title in titles))


def _number(value: float, digits: int) -> PrintedCell:
    return PrintedCell(f"{value:.{digits}f}", (value,))


def _whole(entry: FilledCell, name: str) -> list[int]:
    ended = entry.runs[entry.runs["status"] != "failed"]
    return [int(value) for value in ended[name].dropna()]


def _statuses(entry: FilledCell) -> list[str]:
    known = ("finished", "diverged", "failed")
    return [f"{entry.count(name)} {name}" for name in known if entry.count(name)]
