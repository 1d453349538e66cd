"""Tables whose columns are splits of a corpus: nothing is chosen by a test split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import unknown
from lrbench.protocols.base import declared
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import (
    NO_DATA,
    AxisColumn,
    Grid,
    Row,
    heads,
    level,
    missing,
    with_unlike,
)
from lrbench.report.grids.selection import select
from lrbench.report.output.cells import MISSING, PrintedCell, spread
from lrbench.report.paper.recipe import faithful_on
from lrbench.report.paper.reference import (
    Reference,
    Split,
    lookup_on,
    measured_on,
    printed_on,
    printed_splits,
    table_of,
)
from lrbench.report.paper.verdict import BETWEEN, FEWEST, REACHED, TOLERANCE, Evidence, Guesser
from lrbench.report.runs.collection import Collection, by_split
from lrbench.report.runs.columns import Settings
from lrbench.statistics import mean, median, runs_upper
from lrbench.tables import TableCell, TableSpec

TRAIN_SPLIT = "protocol.train_split"
GUESSES = ("uniform", "majority")  # of these, which see nothing of a string, the better is chance
MEANING = {
    "uniform": "any class",
    "majority": "the commonest answer of the training split",
    "root_operator": "the commonest there given the operator at the root",
    "root_digits": "given that operator and the digits that are its direct arguments",
    "root_summary": "given that operator and what it makes of these digits alone",
    "root_rule": "that itself, with nothing learnt",
}
ON_TEST = {  # where the rule of the paper's numbers is not the one that it has elsewhere
    "lra_text": "the released code of the paper selects on lra_text by the test split itself, so"
    " that its numbers are flattered; ours are selected by training reviews that are kept apart"
}
ROOT = "root_"  # what the names of baselines begin with that see the root of a string alone
NO_NESTING = "no nesting"
AT_CHANCE = (
    "; marked at chance where a mean of as many guessers on as many strings as ours reaches it in"
    " 5 % of cases or more"
)
VERDICTS = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = the 95 % interval of our mean"
    f" is within {TOLERANCE} of the paper's number at its printed precision; {REACHED}; {BETWEEN};"
    " at chance = explained by guessing as well as uniform or majority, not by better lookups;"
    " below chance = on the mean less than half of that, and in no run as good; not comparable ="
    " another rule or other data than the paper's; not learned is not said of a training split that"
    " most of the paper's models have not learned either"
)


@dataclass(frozen=True)
class SplitGrid(Grid):
    """Models x splits of one task; `filled_cells` stand in the order of the table's cells.

    `elsewhere` are the tasks of the table's other grids.
    """

    heading = "split"
    kind = "test"

    protocol: str = ""
    elsewhere: tuple[str, ...] = ()
    rows: Mapping[tuple[str, str], FilledCell] = field(default_factory=dict)

    @property
    def number(self) -> str:
        return self.rule

    @property
    def other(self) -> str:
        """The rule beside the one that is shown."""
        return next(rule for rule in declared(self.protocol).rules if rule != self.rule)

    @property
    def verdict_titles(self) -> tuple[str, ...]:
        return (
            *("n", "strings", "mean", "95 % interval", "paper", "verdict"),
            *(self.other, "chance", "up to", "best baseline"),
        )

    def row(self, label: str) -> list[FilledCell | None]:
        return [self.rows.get((label, column.title)) for column in self.columns]

    def our_rows(self, label: str) -> list[Row]:
        """Ours, and our median where the paper prints one: it is another number than the mean."""
        filled_cells = self.row(label)
        ours = (PrintedCell(label), PrintedCell(self.rule), *map(self.compared, filled_cells))
        medians = [
            e for e in filled_cells if e and e.reference and "median" in e.reference.aggregation
        ]
        values = {id(e): e.values(self.rule, "test") for e in medians}
        if max(map(len, values.values()), default=0) < FEWEST:
            return [ours]
        cells = []
        for filled in filled_cells:
            found = values.get(id(filled), [])
            text = f"{median(found):.{self.digits}f} ({len(found)})" if found else MISSING
            cell = PrintedCell(text, (median(found),) if found else ())
            cells.append(with_unlike(cell, filled) if filled and found else cell)
        return [ours, (PrintedCell(label), PrintedCell(f"{self.rule}, median"), *cells)]

    def level_rows(self) -> list[Row]:
        return baseline_rows(self.columns)

    def with_runs(self) -> Iterator[tuple[FilledCell, tuple[PrintedCell, PrintedCell]]]:
        """Split by split."""
        for index, column in enumerate(self.columns):
            there = [filled for label in self.labels if (filled := self.row(label)[index])]
            for filled, (_, label) in heads(there):
                yield filled, (PrintedCell(column.title), label)

    def legend(self) -> list[str]:
        numbers = [number for column in self.columns for number in column.printed]
        return [
            f"{self.rule}: {self._rule()}; accuracy on all strings of"
            " a split, mean ± sample std (n) over n runs",
            *paper_notes(numbers),
            *self._selected_on_test(),
            *baseline_notes(self.columns),
            *self._without_data(),
            VERDICTS,
            *cut_short(self.shown),
        ]

    def _rule(self) -> str:
        """Say what the rule is; it is not the paper's where that selects on the test split."""
        rule = declared(self.protocol).rules[self.rule]
        other = any(filled.task in ON_TEST for filled in self.filled_cells)
        return rule.replace(", which is the paper's rule", "") if other else rule

    def _selected_on_test(self) -> Iterator[str]:
        """Say where the paper's numbers were chosen by the strings that they are measured on."""
        compared = (filled.task for filled in self.filled_cells if filled.reference)
        yield from (ON_TEST[task] for task in dict.fromkeys(compared) if task in ON_TEST)

    def _without_data(self) -> Iterator[str]:
        """Say where the data are to be had that nobody can train on here."""
        cells = (filled for filled in self.filled_cells if missing(filled) == NO_DATA)
        for task in dict.fromkeys(filled.task for filled in cells):
            yield (
                f"{NO_DATA}: `lrbench data fetch {task}` says which files to get and where to put"
                " them"
            )

    @property
    def shown(self) -> pd.DataFrame:
        """The runs, once each."""
        if not self.cells:
            return pd.DataFrame({name: [] for name in ("status", "stopped", "folder")})
        shown = pd.concat([filled.runs for filled in self.cells])
        return shown[~shown.index.duplicated()]

    def verdict_cells(self, filled: FilledCell, evidence: Evidence) -> dict[str, PrintedCell]:
        column, guesser, n = self.column_of(filled), evidence.guesser, len(evidence.values)
        strings = filled.strings(self.rule, "test")
        upper = runs_upper(guesser.p, guesser.strings, 1, n)[0] if guesser and n else None
        best = column.best_baseline
        return {
            "strings": PrintedCell(MISSING if strings is None else f"{strings:,}"),
            self.other: spread(filled.values(self.other, "test"), self.digits),
            "chance": level(column.chance),
            "up to": level(upper),
            "best baseline": PrintedCell(f"{best[1]:.3f} {best[0]}" if best else MISSING),
        }

    def verdict_notes(self) -> tuple[str, ...]:
        return (
            "95 % interval: Student's t over runs, cut at 0 and 1, where there are three or more;"
            f" {self.other}: the checkpoint of that rule on the same strings",
            "chance: the better of uniform and majority; up to: what 97.5 % of means of n such"
            " guessers stay up to, on as many strings; best baseline: the highest accuracy of"
            " those at the foot of the table above",
        )

    def without_number(self, filled: FilledCell, ended: int) -> Iterator[str]:
        mine = [
            each
            for (label, _), each in self.rows.items()
            if label == filled.label and each.rivals == filled.rivals
        ]
        without = [each.split for each in mine if not each.values(self.rule, "test")]
        if ended and without:
            yield f"not tested by {self.rule} on {', '.join(without)}"

    def outside(self, run: Any, settings: Settings, protocol: str) -> str | None:
        if run.protocol == protocol and run.task in self.elsewhere:
            return None
        if run.protocol == protocol and any(
            run.fingerprint in (*filled.rivals, *filled.not_shown) for filled in self.cells
        ):
            return None
        name = f"{run.task} x {run.model}"
        if run.protocol != protocol:
            name += f" by {run.protocol}"
        source = settings.get(TRAIN_SPLIT, "train")
        return name + ("" if source == "train" else f" trained on {source}")


def split_grids(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    choose: Sequence[str] = (),
    digits: int = 4,
    splits: Sequence[Split] = (),
) -> list[SplitGrid]:
    """Return a grid for each task of `spec`; one that names no cell shows the paper's rows alone.

    `splits` are the columns where they are known, else the table and the runs say which.
    Raises UserError for a rule that its runs do not have, and a fingerprint that no run has.
    """
    check_split_rule(spec.protocol, rule)
    found = select(collection, spec, choose, references)
    pairs = list(zip(spec.cells, found, strict=True))
    table = table_of(spec.source)
    theirs = printed_splits(table, references)
    listed = [cell.task for cell in spec.cells] or [split.task for split in splits or theirs]
    tasks = list(dict.fromkeys(listed))
    made = []
    for task in tasks:
        cells = [pair for pair in pairs if pair[0].task == task]
        there = [split for split in theirs if split.task == task]
        columns = list(splits) or _splits(task, spec.columns, cells, there, alone=len(tasks) == 1)
        rows = _rows(cells, columns, table, references)
        folders: dict[str, list[str]] = {}
        for (_, title), filled in rows.items():
            folders.setdefault(title, []).extend(filled.runs["folder"])
        made.append(
            SplitGrid(
                columns=tuple(
                    split_column(s, collection, folders.get(s.title, ()), table, references)
                    for s in columns
                ),
                cells=tuple(_named_by_source(cell, filled) for cell, filled in cells),
                filled_cells=tuple(rows.values()),
                rule=rule,
                digits=digits,
                part=task if len(tasks) > 1 else "",
                protocol=spec.protocol,
                elsewhere=tuple(other for other in tasks if other != task),
                rows=rows,
            )
        )
    return made


def check_split_rule(protocol: str, rule: str) -> None:
    """Raise UserError for a rule that runs over a corpus do not have."""
    if rule not in (rules := tuple(declared(protocol).rules)):
        raise unknown("rule (of runs over a corpus)", rule, rules, exit_code=2)


def split_column(
    split: Split,
    collection: Collection,
    folders: Iterable[str],
    table: str = "",
    references: Path | None = None,
) -> AxisColumn:
    """Return a split with the baselines that the runs in `folders` measured, or those kept.

    Baselines are the same for equal data; of runs on other data the mean is taken.
    """
    found: dict[str, list[float]] = {}
    strings: list[int] = []
    for folder in folders:
        for name, (value, n) in collection.baselines.get(folder, {}).get(split.name, {}).items():
            found.setdefault(name, []).append(value)
            strings += [] if n is None else [n]
    values = {name: mean(each) for name, each in found.items()}
    if not values:
        kept = measured_on(split, references)
        values = {name: value for name, (value, _) in kept.items()}
        strings = [n for _, n in kept.values() if n is not None]
    chance = max((values[name] for name in GUESSES if name in values), default=None)
    guesser = None if chance is None or not strings else Guesser(chance, min(strings), 1)
    return AxisColumn(
        name=split.name,
        title=split.title,
        chance=chance,
        guesser=guesser,
        printed=tuple(printed_on(split, table, references)),
        baselines=values,
    )


def tested_splits(settings: Mapping[str, Any]) -> list[str]:
    """Return the test splits of a run's flat settings, none where they cannot be read."""
    try:
        names = json.loads(settings.get("protocol.test_splits") or "[]")
    except (TypeError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def trained_on(cell: TableCell, settings: Mapping[str, Any]) -> str:
    """Return the split that a cell's runs train on, by its overrides or by themselves."""
    typed = [
        override.partition("=")[2]
        for override in cell.overrides
        if override.startswith(TRAIN_SPLIT)
    ]
    return str([settings.get(TRAIN_SPLIT, "train"), *typed][-1])


def baseline_rows(columns: Sequence[AxisColumn]) -> list[Row]:
    """Return a row for each baseline there is, those that see least of a string first.

    Of strings that nest a last row has the best of each column: what is reached without nesting.
    """
    names = _baseline_names(columns)
    rows: list[Row] = [
        (
            PrintedCell("baseline"),
            PrintedCell(name),
            *(level(column.baselines.get(name)) for column in columns),
        )
        for name in names
    ]
    if any(name.startswith(ROOT) for name in names):
        best = (column.best_baseline for column in columns)
        highest = (level(None if one is None else one[1]) for one in best)
        rows.append((PrintedCell("baseline"), PrintedCell(NO_NESTING), *highest))
    return rows


def baseline_notes(columns: Sequence[AxisColumn]) -> list[str]:
    """Say what the baselines are."""
    there = _baseline_names(columns)
    if not there:
        return []
    meanings = "; ".join(f"{name} = {MEANING[name]}" if name in MEANING else name for name in there)
    beaten = (
        f"; {NO_NESTING} = the best of these on each split: a model, ours or the paper's, that is"
        " no better need not have followed the nesting there"
    )
    nests = any(name.startswith(ROOT) for name in there)
    return [
        "baseline: lookups fitted on the training split and scored on the same strings:"
        f" {meanings}" + (beaten if nests else "")
    ]


def paper_notes(numbers: Sequence[Reference], marks: bool = True) -> list[str]:
    """Say where the paper's numbers are from, how one was made of several runs, what `marks`."""
    if not numbers:
        return []
    how = ", ".join(dict.fromkeys(number.aggregation for number in numbers))
    source = ", ".join(dict.fromkeys(number.source for number in numbers))
    spreads = any(number.spread for number in numbers)
    return [
        f"paper: as printed in {source} ({how}), percentages as shares"
        + ("; ± is the spread that it prints, a population std" if spreads else "")
        + (AT_CHANCE if marks else "")
    ]


def cut_short(shown: pd.DataFrame) -> list[str]:
    """Say how many runs ended while their dev score might still have become better."""
    ended = shown[shown["status"] == "finished"]
    cut = int((ended["stopped"] == "budget").sum())
    if not cut:
        return []
    return [
        f"{cut} of {len(ended)} runs ended at their budget, not because the dev score had stopped"
        " improving: they may be short of what the model can do"
    ]


def _baseline_names(columns: Sequence[AxisColumn]) -> list[str]:
    there = {name for column in columns for name in column.baselines}
    return [*(name for name in MEANING if name in there), *sorted(there - set(MEANING))]


def _rows(
    cells: Sequence[tuple[TableCell, FilledCell]],
    splits: Sequence[Split],
    table: str,
    references: Path | None,
) -> dict[tuple[str, str], FilledCell]:
    """What stands in each row and column, by its label and the column's title.

    A cell is meant for the splits that it names, or for all that its training split has.
    """
    rows: dict[tuple[str, str], FilledCell] = {}
    for cell, filled in cells:
        source = trained_on(cell, filled.settings)
        for split in splits:
            if (split.task, split.trained_on) != (cell.task, source):
                continue
            if cell.splits and split.name not in cell.splits:
                continue
            shown = replace(
                filled,
                split=split.name,
                reference=lookup_on(split, cell.model, table, cell.reference, references),
                faithful=faithful_on(split, filled.settings),
            )
            rows.setdefault((filled.label, split.title), shown)
    return rows


def _named_by_source(cell: TableCell, filled: FilledCell) -> FilledCell:
    """A model may be trained on several splits: where it is listed once for each, say which."""
    source = trained_on(cell, filled.settings)
    return filled if source == "train" else replace(filled, task=f"{cell.task} ({source})")


def _splits(
    task: str,
    columns: Sequence[str],
    cells: Sequence[tuple[TableCell, FilledCell]],
    printed: Sequence[Split],
    alone: bool,
) -> list[Split]:
    """The columns that were asked for, else the paper's and all that the runs were tested on.

    What a split was asked of is said by a cell that names it, by the paper's table, or by a run.
    A column that nothing knows is this task's if it stands `alone`.
    """
    named = {
        Split(task, name, trained_on(cell, filled.settings)): None
        for cell, filled in cells
        for name in cell.splits
    }
    tested = {
        Split(task, name, trained_on(cell, filled.settings)): None
        for cell, filled in cells
        for name in tested_splits(filled.settings)
    }
    known = list(dict.fromkeys([*named, *printed, *tested]))
    names = [name for name in columns if name != task]
    if not names:
        return known
    usual = known[0].trained_on if known else "train"
    return [
        split
        for name in names
        for split in [one for one in known if one.name == name]
        or [Split(task, name, usual)] * alone
    ]


def over_corpora(collection: Collection) -> pd.DataFrame:
    """Return the runs that are scored on splits, unfinished ones too."""
    runs = collection.every_run
    return runs[by_split(runs["protocol"])]


def splits_there(collection: Collection) -> list[Split]:
    """Return every split that a run of the collection was tested on, in the order of the runs."""
    runs = over_corpora(collection)
    found: dict[Split, None] = {}
    for task, folder in zip(runs["task"], runs["folder"], strict=True):
        settings = collection.settings_of(folder)
        source = str(settings.get(TRAIN_SPLIT, "train"))
        found |= dict.fromkeys(Split(task, name, source) for name in tested_splits(settings))
    return list(found)
