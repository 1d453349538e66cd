"""What the verdicts rest on, and the same checkpoints on fresh strings by every rule."""

from __future__ import annotations

from lrbench.report.output.cells import MISSING, Cell, Column, Table, estimate, interval, spread
from lrbench.report.paper.verdict import FEWEST, Guesser, judge, mean_interval
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.places import LEFT, View, missing, rule_told
from lrbench.statistics import guessing_best_of, mean, runs_upper
from lrbench.tables import RULES


def verdicts_table(view: View) -> Table:
    """Return a row a cell: its mean and interval, the paper's number, what guessing would give."""
    rows = tuple((*head, *_verdict(view, entry)) for entry, head in view.with_runs())
    columns = (
        *LEFT,
        *(Column(title) for title in ("n", "mean", "95 % interval", "paper")),
        Column("verdict", right=False),
        *(Column(title) for title in ("train", "looks", "guessing", "up to")),
    )
    notes = (
        "95 % interval: Student's t over runs, cut at 0 and 1; train: accuracy at the training"
        " length on fresh strings",
        "looks: how many, at how many strings; guessing: the mean of n guessers who have the best"
        " baseline, by the same rule, and what 97.5 % of such means stay up to; at chance: no mean"
        " beyond that, and no run beyond what the best of n guessers stays up to in 97.5 %",
    )
    return Table(f"What the verdicts rest on ({view.rule} look)", columns, rows, notes)


def _verdict(view: View, entry: Entry) -> tuple[Cell, ...]:
    evidence = entry.evidence(view.rule, "look", view.chance[entry.task])
    verdict = judge(evidence, entry.reference, entry.comparable(view.rule))
    values, digits = evidence.values, view.digits
    enough = len(values) >= FEWEST
    ends = interval(mean_interval(values, evidence.metric), digits) if enough else MISSING
    return (
        Cell(f"{len(values)}"),
        estimate(mean(values), None, digits) if values else Cell(missing(entry)),
        Cell(ends),
        Cell(entry.reference.at(entry.length) if entry.reference else MISSING),
        Cell(str(verdict or MISSING), mark=str(verdict or "")),
        spread(evidence.trained, digits),
        *_guessing(evidence.guesser, len(values)),
    )


def _guessing(guesser: Guesser | None, n: int) -> tuple[Cell, ...]:
    if guesser is None or not n:
        return Cell(), Cell(), Cell()
    average = guessing_best_of(guesser.p, guesser.strings, guesser.looks)
    upper, _ = runs_upper(guesser.p, guesser.strings, guesser.looks, n)
    looks = Cell(f"{guesser.looks} × {guesser.strings:,}")
    return looks, Cell(f"{average:.3f}", (average,)), Cell(f"{upper:.3f}", (upper,))


def fresh_table(view: View) -> Table:
    """Return every rule on fresh strings, the asked one first."""
    rules = (view.rule, *(name for name in RULES if name != view.rule))
    rows = []
    for entry, head in view.with_runs():
        strings = {entry.strings(name, "test") for name in rules}
        counts = sorted(n for n in strings if n is not None)
        rows.append(
            (
                *head,
                Cell(f"{entry.length:,}" if entry.length else MISSING),
                Cell(" or ".join(f"{n:,}" for n in counts) or MISSING),
                *(view.fresh(entry, name) for name in rules),
                view.level(entry.task),
            )
        )
    early = sum(int((entry.runs["stopped"] == "perfect").sum()) for entry, _ in view.with_runs())
    unseen = "the test series" if view.tested_where_trained else "the test length"
    columns = (*LEFT, *(Column(title) for title in ("length", "strings", *rules, "chance")))
    notes = (
        f"{view.scored_by} at the test length on fresh strings of the checkpoint each rule keeps: "
        + "; ".join(f"{name} = {rule_told(name, view.entries)}" for name in rules),
        f"chance: the best measured baseline, mean over runs; id, band and last choose nothing at"
        f" {unseen}" + (f", but a perfect look there ended {early} of the runs" if early else ""),
    )
    return Table("On fresh strings, by every rule", columns, tuple(rows), notes)
