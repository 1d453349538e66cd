"""Tables whose columns are tasks: looks and fresh strings at a test length, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.errors import unknown
from lrbench.protocols.base import declared
from lrbench.registry import DEFAULT_PROTOCOL
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import AxisColumn, Grid, Row, level
from lrbench.report.grids.selection import chances, select, unfit
from lrbench.report.output.cells import PrintedCell, spread
from lrbench.report.paper.reference import names, printed
from lrbench.report.paper.verdict import (
    BETWEEN,
    FEWEST,
    LEARNED,
    REACHED,
    RELATIVE_TOLERANCE,
    TOLERANCE,
    Evidence,
    Guesser,
)
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import Settings
from lrbench.statistics import expected_maximum, guessing_best_of, runs_upper
from lrbench.tables import TableSpec

OTHER = "not comparable = another rule, length or protocol than the paper's"
OF_ACCURACIES = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval within {TOLERANCE}"
    f" of the paper's number at its printed precision; {REACHED}; {BETWEEN}; not learned = the"
    f" median run has less than {LEARNED} at the training length; at chance = no better than"
    " guessing under the same rule; below chance = on the mean less than half of it, and in no run"
    f" as good; {OTHER}"
)
WITHIN = f"within {RELATIVE_TOLERANCE} times the paper's number"
OF_ERRORS = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval {WITHIN} of it, at"
    f" its printed precision; {BETWEEN}; not learned = all runs diverged; at chance = no better"
    f" than the best baseline; {OTHER}"
)
ERRORS = (
    "NRMSE: root of the summed squared error over the summed squared target, at every position of"
    " every test series; lower is better, so below the paper's number is better than it; look and"
    " fresh strings are the same test series; nothing is guessed or solved"
)
ERRORS_BESIDE = (
    f"; reproduced = {WITHIN} of it; at chance = no better than the best baseline; not learned ="
    " all runs diverged"
)


@dataclass(frozen=True)
class LengthGrid(Grid):
    """Models x tasks: the paper takes its number from looks, ours is told on fresh strings too."""

    heading = "task"

    @property
    def kind(self) -> str:
        by_tests = any(declared(filled.protocol).by_tests for filled in self.filled_cells)
        return "test" if by_tests else "look"

    @property
    def number(self) -> str:
        return f"{self.rule} {self.kind}"

    @property
    def verdict_titles(self) -> tuple[str, ...]:
        return (
            *("n", "mean", "95 % interval", "paper", "verdict"),
            *("train", "looks", "guessing", "up to"),
        )

    def row(self, label: str) -> list[FilledCell | None]:
        found = {filled.task: filled for filled in self.filled_cells if filled.label == label}
        return [found.get(column.name) for column in self.columns]

    def our_rows(self, label: str) -> list[Row]:
        """The rule's look, and below it the same checkpoints on fresh strings."""
        found = self.row(label)
        compared = (PrintedCell(label), PrintedCell(self.number), *map(self.compared, found))
        if self.kind == "test":  # they are on fresh strings
            return [compared]
        return [
            compared,
            (
                PrintedCell(label),
                PrintedCell("fresh strings"),
                *(self.fresh(filled, self.rule) for filled in found),
            ),
        ]

    def level_rows(self) -> list[Row]:
        """Guessing under the paper's rule, where it tells one, and chance."""
        rows = []
        guessers = [column.guesser for column in self.columns]
        if any(guessers):
            guessing = [
                level(guessing_best_of(g.p, g.strings, g.looks)) if g else PrintedCell()
                for g in guessers
            ]
            rows.append((PrintedCell("guessing"), PrintedCell("by the paper's rule"), *guessing))
        chance = [level(column.chance) for column in self.columns]
        return [*rows, (PrintedCell("chance"), PrintedCell("best baseline"), *chance)]

    def legend(self) -> list[str]:
        below = "; fresh strings: the same checkpoints, on strings that nothing was chosen by"
        return [
            f"{self.number}: our {self.scored_by} by the rule {self.rule}"
            f" ({rule_legend(self.rule, self.filled_cells)}), mean ±"
            f" sample std (n) over n runs{'' if self.kind == 'test' else below}",
            *self._paper_notes(),
            *self._unlike_paper(),
            *self._on_verdicts(),
        ]

    def verdict_cells(self, filled: FilledCell, evidence: Evidence) -> dict[str, PrintedCell]:
        found = {"train": spread(evidence.trained, self.digits)}
        guesser, n = evidence.guesser, len(evidence.values)
        if guesser is None or not n:
            return found
        upper, _ = runs_upper(guesser.p, guesser.strings, guesser.looks, n)
        return found | {
            "looks": PrintedCell(f"{guesser.looks} × {guesser.strings:,}"),
            "guessing": level(guessing_best_of(guesser.p, guesser.strings, guesser.looks)),
            "up to": level(upper),
        }

    def verdict_notes(self) -> tuple[str, ...]:
        return (
            "95 % interval: Student's t over runs, cut at 0 and 1; train: accuracy at the training"
            " length on fresh strings, of the checkpoint that was best there",
            "looks: how many, at how many strings; guessing: the mean of n guessers who have the"
            " best baseline, by the same rule, and what 97.5 % of such means stay up to; at"
            " chance: no mean beyond that, and no run beyond what the best of n guessers stays up"
            " to in 97.5 %",
        )

    def without_number(self, filled: FilledCell, ended: int) -> Iterator[str]:
        without = ended - len(filled.values(self.rule, "test"))
        if without:
            yield f"{without} of {ended} runs have no number by {self.rule}"
        further = [length for length in filled.lengths() if length != filled.length]
        if further:
            lengths = ", ".join(f"{length:,}" for length in further)
            yield f"tested at {lengths} as well, which is in the csv format"

    def outside(self, run: Any, settings: Settings, protocol: str) -> str | None:
        if run.protocol != protocol:
            return f"{run.task} x {run.model} by {run.protocol}"
        place = (run.task, run.model)
        covered = [one for one in self.filled_cells if (one.task, one.model) == place]
        name = f"{run.task} x {run.model}"
        if not covered:
            return name
        there = any(
            run.fingerprint in (*filled.rivals, *filled.not_shown) for filled in self.filled_cells
        )
        if there:
            return None
        nearest = min((unfit(filled, settings) for filled in covered), key=len)
        return f"{name} with {', '.join(nearest) or 'settings that no cell has'}"

    def _paper_notes(self) -> list[str]:
        """Say where the paper's numbers are from and what they may not mean."""
        first = next((found for column in self.columns for found in column.printed), None)
        if first is None:
            return []
        took = (column.published for column in self.columns)
        looked = sorted({f"{p.looks} looks at {p.strings} strings" for p in took if p})
        how = f"; its rule: the best of up to {', '.join(looked)}" if looked else ""
        return [
            f"paper: as printed in {first.source} ({first.aggregation}){first.turned}{how}; marked"
            " at chance where a mean of as many guessers under that rule reaches it in 5 % of cases"
            " or more"
        ]

    def _unlike_paper(self) -> Iterator[str]:
        """Say why cells have no verdict, and what the best of several runs adds."""
        why: dict[str, list[str]] = {}
        for filled in self.filled_cells:
            if len(filled.runs) and filled.reference and (reason := filled.unlike_paper()):
                why.setdefault(reason, []).append(f"{filled.task} x {filled.label}")
        for reason, cells in why.items():
            yield f"not comparable: {', '.join(cells)}: {reason}"
        runs = max((declared(f.protocol).paper_runs for f in self.filled_cells), default=1)
        if runs > 1:
            yield (
                f"the paper's numbers are the best of {runs} runs: above their mean by about"
                f" {expected_maximum(runs):.2f} of their standard deviation"
            )

    def _on_verdicts(self) -> Iterator[str]:
        """Yield what the verdicts mean, and what they leave open."""
        counted = [filled.metric.counts for filled in self.filled_cells]
        only_errors = bool(counted) and not any(counted)
        yield OF_ERRORS if only_errors else OF_ACCURACIES
        if any(_all_alike(filled, self.rule) for filled in self.filled_cells):
            yield (
                "runs that are all alike give an interval without width: a further run may differ"
                " all the same; the solve rates have an interval that says how often"
            )
        yield from self._fewer_updates()
        if not all(counted):
            yield ERRORS + ("" if only_errors else ERRORS_BESIDE)

    def _fewer_updates(self) -> Iterator[str]:
        """Say where our runs had a smaller budget than the paper's: that may be a 'below'."""
        budgets = {
            (ours, filled.published.updates)
            for filled in self.filled_cells
            if len(filled.runs) and filled.published
            if (ours := filled.updates()) and ours < filled.published.updates
        }
        for ours, theirs in sorted(budgets):
            yield (
                f"our runs of {ours:,} updates stand against the paper's of {theirs:,}: 'below',"
                " 'not learned' and 'at chance' may be for want of training"
            )


def length_grid(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> LengthGrid:
    """Return the cells of `spec`. Raises UserError for a rule or fingerprint that is not there."""
    check_rule(spec.protocol, rule)
    known = sorted({row["protocol"] for row in names("tasks")})
    if spec.printed and spec.printed not in known:
        raise unknown(f"printed of table {spec.name}", spec.printed, known, exit_code=2)
    filled_cells = select(collection, spec, choose, references)
    tasks = tuple(spec.columns) or tuple(dict.fromkeys(filled.task for filled in filled_cells))
    shown = tuple(filled for filled in filled_cells if filled.task in tasks)
    chance = chances(shown, references)
    columns = tuple(
        _column(task, shown, chance.get(task), spec.paper, references) for task in tasks
    )
    return LengthGrid(columns, shown, shown, rule, digits)


def check_rule(protocol: str, rule: str) -> None:
    """Raise UserError for a rule that runs of a protocol do not have."""
    if rule not in (rules := tuple(declared(protocol).rules)):
        raise unknown("rule", rule, rules, exit_code=2)


def rule_legend(rule: str, filled_cells: Iterable[FilledCell]) -> str:
    """Say which checkpoint a rule keeps, and whether the papers of these cells took theirs so."""
    filled_cells = list(filled_cells)
    papers = {filled.reference.rule for filled in filled_cells if filled.reference} - {None}
    protocol = declared(next((filled.protocol for filled in filled_cells), DEFAULT_PROTOCOL))
    theirs = rule in (papers or ([protocol.usual_rule] if protocol.paper else []))
    return protocol.rules[rule] + (", the paper's rule" if theirs else "")


def _column(
    task: str,
    filled_cells: Sequence[FilledCell],
    chance: float | None,
    paper: str,
    references: Path | None,
) -> AxisColumn:
    mine = [filled for filled in filled_cells if filled.task == task]
    if not mine:
        return AxisColumn(task, task, chance, None, ())
    first = mine[0]
    looked = first.published
    guesser = looked and chance is not None and Guesser(chance, looked.strings, looked.looks)
    return AxisColumn(
        name=task,
        title=_title(task, mine),
        chance=chance,
        guesser=guesser or None,
        printed=tuple(printed(task, first.modulus, paper, references)),
        published=looked,
    )


def _title(task: str, filled_cells: Sequence[FilledCell]) -> str:
    titles = [str(title) for filled in filled_cells for title in filled.runs["task_title"].dropna()]
    modulus = filled_cells[0].modulus
    named = titles[0] if titles else f"{task} (mod {modulus})" if modulus else task
    errors = [filled.metric.title for filled in filled_cells if not filled.metric.counts]
    return f"{named}, {errors[0]}" if errors else named


def _all_alike(filled: FilledCell, rule: str) -> bool:
    values = filled.values(rule, "look")
    return len(values) >= FEWEST and len(set(values)) == 1
