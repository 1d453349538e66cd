"""A paper's table of the runs there are: ours, the paper's, chance, and a verdict per cell.

One table would be too wide to read, so a report is several: the paper's layout by its rule, what
its verdicts rest on, every rule on fresh strings, solve rates, costs, and pairs of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lrbench.errors import unknown
from lrbench.report.corpora.chosen import chosen_split_tables
from lrbench.report.corpora.matrix import SPLIT_RULES, split_tables
from lrbench.report.output.cells import Cell, Column, Table
from lrbench.report.paper.reference import is_row
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import BY_SPLIT
from lrbench.report.tables.asked import among, known, names_at_lengths, printed_models
from lrbench.report.tables.cost import cost_table, solved_table
from lrbench.report.tables.evidence import fresh_table, verdicts_table
from lrbench.report.tables.left_out import how_to_read, selection_notes
from lrbench.report.tables.length_curves import length_tables
from lrbench.report.tables.pairs import pairs_table
from lrbench.report.tables.places import View, rule_told
from lrbench.report.tables.printed import PaperRows, paper_rows
from lrbench.report.tables.selection import chances, select
from lrbench.tables import RULES, TableCell, TableSpec


def paper_tables(
    collection: Collection,
    spec: TableSpec,
    rule: str = "",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> list[Table]:
    """Return the tables of `spec` for the runs of `collection`, by `rule` (default: the table's).

    Every row of the paper's table is there, with or without runs of ours. `references` is another
    folder of reference values. `choose` names the fingerprints to show where several
    configurations compete for a cell; without it such a cell says so and is empty. Raises
    UserError for an unknown rule or fingerprint.
    """
    options: dict[str, Any] = {"choose": choose, "digits": digits}
    if spec.kind == "lengths":
        return length_tables(collection, spec, rule or spec.rule, references, **options)
    if spec.protocol in BY_SPLIT:
        return split_tables(collection, spec, rule or spec.rule, references, **options)
    view, rows = _view(collection, spec, rule or spec.rule, references, choose, digits)
    return _tables(collection, spec, view, rows, rows.models)


def chosen_tables(
    collection: Collection,
    rows: Sequence[str],
    columns: Sequence[str],
    rule: str = "best",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> list[Table]:
    """Return the tables of a user's own choice: models x tasks (or splits), for each protocol.

    No rows, or no columns: all there are. Beside models a row may be one of the paper's (S4D).
    Raises UserError for a model or task without a run, and as `paper_tables` does.
    """
    shares: dict[str, Any] = {"choose": choose, "digits": digits}
    over_splits: list[Table] = []
    everything = collection.every_run
    runs = everything[~everything["protocol"].isin(BY_SPLIT)]
    if len(runs) < len(everything):
        named, mine, more = names_at_lengths(collection, runs, rows, columns, references)
        if not more or rule in SPLIT_RULES:  # beside others they are left out by a rule of those
            over_splits = chosen_split_tables(collection, rows, columns, rule, references, **shares)
        if not more:
            return over_splits
        rows, columns = named, mine
    tasks = known("task", columns, runs["task"])
    tables: list[Table] = []
    for protocol in sorted(set(runs.loc[runs["task"].isin(tasks), "protocol"]) - {"?"}):
        theirs = [name for name in printed_models(protocol, tasks, references) if among(name, rows)]
        # A row of the paper that has a run as well (blockdiag) is a row of ours.
        there = set(runs["model"])
        ours = [row for row in rows if row in there or not any(is_row(t, row) for t in theirs)]
        models = known("model", ours or rows[:1], runs["model"])
        cells = _cells(models, tasks)
        spec = TableSpec(protocol, protocol, cells, "", protocol, rule, tuple(tasks))
        view, found = _view(collection, spec, rule, references, choose, digits)
        if any(len(e.runs) or e.rivals or e.under_way for e in view.entries):
            tables += _tables(collection, spec, view, found, theirs)
    return [*tables, *over_splits]


def _view(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None,
    choose: Sequence[str],
    digits: int,
) -> tuple[View, PaperRows]:
    """What the tables show of the collection, and the paper's rows beside it."""
    if rule not in RULES:
        raise unknown("rule", rule, RULES, exit_code=2)
    entries = select(collection, spec, choose, references)
    tasks = tuple(spec.columns) or tuple(dict.fromkeys(entry.task for entry in entries))
    shown = tuple(entry for entry in entries if entry.task in tasks)
    view = View(shown, tasks, rule, chances(shown, references), digits)
    return view, paper_rows(shown, tasks, view.chance, references)


def _tables(
    collection: Collection, spec: TableSpec, view: View, paper: PaperRows, others: Sequence[str]
) -> list[Table]:
    """`others` are the paper's rows to show though no model of ours is compared with them."""
    return [
        _main(collection, spec, view, paper, others),
        verdicts_table(view),
        fresh_table(view),
        solved_table(view),
        cost_table(view),
        *pairs_table(view),
    ]


def _main(
    collection: Collection, spec: TableSpec, view: View, paper: PaperRows, others: Sequence[str]
) -> Table:
    """The paper's layout: two rows a model of ours and one of the paper's, then the guessers'."""
    by_place = {(entry.label, entry.task): entry for entry in view.entries}
    rows: list[tuple[Cell, ...]] = []
    compared: set[str] = set()
    for label in dict.fromkeys(entry.label for entry in view.entries):
        found = [by_place.get((label, task)) for task in view.tasks]
        rows.append((Cell(label), Cell(f"{view.rule} look"), *map(view.look, found)))
        fresh = [view.fresh(entry, view.rule) for entry in found]
        rows.append((Cell(label), Cell("fresh strings"), *fresh))
        names = dict.fromkeys(e.reference.model for e in found if e is not None and e.reference)
        rows += [(Cell(label), Cell(f"paper: {name}"), *paper.cells(name)) for name in names]
        compared |= set(names)
    rows += [
        (Cell(name), Cell("paper"), *paper.cells(name)) for name in others if name not in compared
    ]
    columns = ("model", "number", *(_title(view, task) for task in view.tasks))
    notes = [
        f"{view.rule} look: our {view.scored_by} by the rule {view.rule}"
        f" ({rule_told(view.rule, view.entries)}), mean ±"
        " sample std (n) over n runs; fresh strings: the same checkpoints, on strings that nothing"
        " was chosen by",
        *paper.notes(),
        *how_to_read(view),
        *selection_notes(view, collection, spec.protocol),
    ]
    return Table(
        f"{spec.title}: {view.rule} look",
        tuple(Column(title, right=False) for title in columns),
        (*rows, *paper.levels()),
        tuple(notes),
    )


def _title(view: View, task: str) -> str:
    entries = [entry for entry in view.entries if entry.task == task]
    titles = [str(title) for entry in entries for title in entry.runs["task_title"].dropna()]
    modulus = next((entry.modulus for entry in entries), None)
    named = titles[0] if titles else f"{task} (mod {modulus})" if modulus else task
    errors = [entry.metric.title for entry in entries if not entry.metric.counts]
    return f"{named}, {errors[0]}" if errors else named


def _cells(models: Iterable[str], tasks: Iterable[str]) -> tuple[TableCell, ...]:
    pairs = [(task, model) for model in dict.fromkeys(models) for task in tasks]
    return tuple(TableCell((f"task={task}", f"model={model}")) for task, model in pairs)
