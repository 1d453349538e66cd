"""The tables below a paper's table, each on its cells.

What the verdicts rest on, every rule on fresh strings, solve rates, what is known of runs on all
strings, costs, and pairs of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from lrbench.metrics import Metric
from lrbench.protocols.base import declared
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import Grid, heads, left, level, missing, with_unlike
from lrbench.report.grids.lengths import rule_legend
from lrbench.report.grids.selection import TUNING
from lrbench.report.output.cells import (
    MISSING,
    Column,
    PrintedCell,
    Table,
    duration,
    estimate,
    interval,
    share,
    span,
    spread,
)
from lrbench.report.paper.verdict import FEWEST, judge, mean_interval
from lrbench.report.runs.columns import Answers
from lrbench.report.tables.horizons import (
    OTHER,
    certified_cells,
    certified_columns,
    certified_legend,
    of_rule,
)
from lrbench.statistics import (
    SOLVED,
    bootstrap_mean,
    difference_of_means,
    mean,
    median,
    probability_of_improvement,
    solve_rate,
)

LEFT_ALIGNED = ("verdict", "best baseline")


def verdicts_table(grid: Grid) -> Table:
    """Return a row for each of its cells: mean and interval, the paper's number, what guessing."""
    titles = grid.verdict_titles
    rows = tuple(
        (*head, *(verdict.get(title, PrintedCell()) for title in titles))
        for filled, head in grid.with_runs()
        for verdict in [_verdict(grid, filled)]
    )
    columns = (*left(grid.heading), *(Column(title, title not in LEFT_ALIGNED) for title in titles))
    title = f"What the verdicts rest on ({grid.number})"
    return Table(title, columns, rows, grid.verdict_notes(), "evidence")


def _verdict(grid: Grid, filled: FilledCell) -> dict[str, PrintedCell]:
    evidence = grid.evidence(filled)
    verdict = judge(evidence, filled.reference, filled.comparable(grid.rule))
    values, digits = evidence.values, grid.digits
    enough = len(values) >= FEWEST
    ends = interval(mean_interval(values, evidence.metric), digits) if enough else MISSING
    return {
        "n": PrintedCell(f"{len(values)}"),
        "mean": estimate(mean(values), None, digits) if values else PrintedCell(missing(filled)),
        "95 % interval": PrintedCell(ends),
        "paper": PrintedCell(filled.reference.at(filled.length) if filled.reference else MISSING),
        "verdict": PrintedCell(str(verdict or MISSING), mark=str(verdict or "")),
        **grid.verdict_cells(filled, evidence),
    }


def fresh_table(grid: Grid) -> Table:
    """Return every rule on fresh strings, the one that is shown first."""
    protocol = next((filled.protocol for filled in grid.filled_cells), "")
    rules = tuple(dict.fromkeys((grid.rule, *declared(protocol).rules)))
    rows = []
    for filled, head in grid.with_runs():
        strings = {filled.strings(name, "test") for name in rules}
        counts = sorted(n for n in strings if n is not None)
        rows.append(
            (
                *head,
                PrintedCell(f"{filled.length:,}" if filled.length else MISSING),
                PrintedCell(" or ".join(f"{n:,}" for n in counts) or MISSING),
                *(grid.fresh(filled, name) for name in rules),
                level(grid.chance.get(filled.task)),
            )
        )
    early = sum(int((filled.runs["stopped"] == "perfect").sum()) for filled, _ in grid.with_runs())
    unseen = "the test series" if grid.tested_where_trained else "the test length"
    columns = (*left(), *(Column(title) for title in ("length", "strings", *rules, "chance")))
    notes = (
        f"{grid.scored_by} at the test length on fresh strings of the checkpoint each rule keeps: "
        + "; ".join(f"{name} = {rule_legend(name, grid.filled_cells)}" for name in rules),
        f"chance: the best baseline, mean over runs; id, band and last choose nothing at"
        f" {unseen}" + (f", but a perfect look there ended {early} of the runs" if early else ""),
    )
    return Table("On fresh strings, by every rule", columns, tuple(rows), notes, "evidence")


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
    for filled, head in grid.with_runs():
        values = filled.values(rule, "test")
        lost = filled.lost(rule, "test")
        known = filled.metric.counts and (values or lost)
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
    return Table(f"Solve rate ({rule})", _columns(titles), tuple(rows), notes, "evidence")


def all_strings_table(grid: Grid, answers: Mapping[str, Answers]) -> list[Table]:
    """Return what is known of runs on all strings, by the grid's rule and `last`, if anything."""
    known = {
        rule: [of_rule(answers, filled.runs["folder"], rule) for filled, _ in grid.with_runs()]
        for rule in dict.fromkeys((grid.rule, OTHER))
    }
    known = {rule: found for rule, found in known.items() if any(map(any, found))}
    if not known:
        return []
    rows = []
    for at, (filled, head) in enumerate(grid.with_runs()):
        if any(any(found[at]) for found in known.values()):
            certified = [cell for found in known.values() for cell in certified_cells(found[at])]
            rows.append((*head, PrintedCell(str(len(filled.runs))), *certified))
    columns = [*left(grid.heading), Column("runs")]
    columns += [column for rule in known for column in certified_columns(rule)]
    legend = certified_legend(one for found in known.values() for each in found for one in each)
    return [Table("On all strings", tuple(columns), tuple(rows), tuple(legend), "evidence")]


def cost_table(grid: Grid) -> Table:
    """Return parameters, state size, updates, time and tuning budget of each cell.

    Where models iterate also what that bought, accuracy at both lengths, beside the iterations.
    """
    rows = []
    iterated = any(filled.runs["iterations"].notna().any() for filled, _ in heads(grid.cells))
    for filled, head in heads(grid.cells):
        seconds = [float(value) for value in filled.runs["train_seconds"].dropna()]
        rows.append(
            (
                *head,
                *(_bought(filled, grid) if iterated else ()),
                *(span(_whole(filled, name)) for name in ("parameters", "state_size", "steps")),
                span([n for n in [filled.updates()] if n]),
                PrintedCell(duration(median(seconds)) if seconds else MISSING, tuple(seconds)),
                _speed(filled),
                *([_iterations(filled)] if iterated else []),
                PrintedCell(str(filled.settings.get(TUNING) or MISSING)),
                PrintedCell(", ".join(_statuses(filled))),
                PrintedCell(str(filled.runs["fingerprint"].iloc[0])),
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
        "state: the floats that a model keeps between symbols; budget: the most updates allowed;"
        " time: of the updates alone, in the median run; tuning: how many runs the settings were"
        f" chosen from ({MISSING}: neither the table nor the runs tell)",
        *((ITERATED, BOUGHT.format(rule=grid.rule)) if iterated else ()),
    )
    return Table("Cost", _columns(titles), tuple(rows), notes, "cost")


def _bought(filled: FilledCell, grid: Grid) -> tuple[PrintedCell, PrintedCell]:
    """Return the accuracy at the training length and at the test length."""
    trained = filled.values(grid.rule, "test", "train_length")
    return spread(trained, grid.digits), spread(filled.values(grid.rule, "test"), grid.digits)


def _speed(filled: FilledCell) -> PrintedCell:
    """Return the updates a second of the median run."""
    runs = filled.runs[(filled.runs["train_seconds"] > 0) & filled.runs["steps"].notna()]
    pairs = zip(runs["steps"].tolist(), runs["train_seconds"].tolist(), strict=True)
    speeds = tuple(float(steps) / float(seconds) for steps, seconds in pairs)
    return PrintedCell(f"{median(speeds):.3g}", speeds) if speeds else PrintedCell()


def _iterations(filled: FilledCell) -> PrintedCell:
    """Return the mean iterations of all runs, and how many solutions had converged if not all."""
    known = filled.runs[filled.runs["iterations"].notna()]
    values = [float(value) for value in known["iterations"].tolist()]
    if not values:  # a number that was set is no mean
        return PrintedCell(str(filled.settings.get("model.mixer.iterations") or MISSING))
    converged = mean([float(value) for value in known["converged"].fillna(1.0).tolist()])
    converged_text = "" if converged == 1 else f", {converged:.1%} converged"
    return PrintedCell(f"{mean(values):.1f}{converged_text}", tuple(values))


def _columns(titles: Sequence[str]) -> tuple[Column, ...]:
    return (*left(), *(Column(title, right=title != "configuration") for title in titles))


def _number(value: float, digits: int) -> PrintedCell:
    return PrintedCell(f"{value:.{digits}f}", (value,))


def _whole(filled: FilledCell, name: str) -> list[int]:
    ended = filled.runs[filled.runs["status"] != "failed"]
    return [int(value) for value in ended[name].dropna()]


def _statuses(filled: FilledCell) -> list[str]:
    known = ("finished", "diverged", "failed")
    return [f"{filled.count(name)} {name}" for name in known if filled.count(name)]


MOST = 6  # models of which every pair is shown; of more, each against the first


def pairs_table(grid: Grid) -> list[Table]:
    """Return a table of pairs by the grid's rule on fresh strings, none where there is no pair.

    Numbers at different lengths are never compared.
    """
    metrics = dict.fromkeys(filled.metric for filled in grid.filled_cells)
    return [table for metric in metrics for table in _pairs_by(grid, metric)]


def _pairs_by(grid: Grid, metric: Metric) -> list[Table]:
    rule, rows, cut = grid.rule, [], False
    for task in (column.name for column in grid.columns):
        filled_cells = [
            filled
            for filled in grid.filled_cells
            if (filled.column, filled.metric) == (task, metric)
        ]
        there = [filled for filled in filled_cells if filled.values(rule, "test")]
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
    return [Table(f"Pairs of models ({named})", columns, tuple(rows), tuple(notes), "pairs")]


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
        PrintedCell(first.column),
        *(with_unlike(PrintedCell(one.label), one) for one in (first, second)),
        PrintedCell(f"{len(a)}, {len(b)}"),
        estimate(*probability_of_improvement(x, y), 2),
        estimate(*difference_of_means(a, b), 3),
    )
