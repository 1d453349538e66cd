"""A paper's table of the runs there are: ours, the paper's, chance, and a verdict per cell.

One table would be too wide to read, so a report is several: the paper's layout by its rule, what
its verdicts rest on, every rule on fresh strings, solve rates, costs, and pairs of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lrbench.errors import unknown
from lrbench.report.cells import Cell, Column, Table
from lrbench.report.collect import Collection
from lrbench.report.cost import cost_table, solved_table
from lrbench.report.evidence import fresh_table, verdicts_table
from lrbench.report.left_out import selection_notes
from lrbench.report.pairs import pairs_table
from lrbench.report.places import RULE_LEGEND, View
from lrbench.report.printed import PaperRows, paper_rows
from lrbench.report.published import printed_modulus
from lrbench.report.reference import is_row, printed
from lrbench.report.selection import chances, select
from lrbench.report.verdict import FEWEST, LEARNED, RELATIVE_TOLERANCE, TOLERANCE
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
    """Return the tables of a user's own choice: models x tasks, for each protocol there is.

    No rows, or no columns: all there are. Beside models a row may be one of the paper's (S4D).
    Raises UserError for a model or task without a run, and as `paper_tables` does.
    """
    runs = collection.runs
    tasks = _known("task", columns, runs["task"])
    tables: list[Table] = []
    for protocol in sorted(set(runs.loc[runs["task"].isin(tasks), "protocol"]) - {"?"}):
        theirs = [name for name in _printed(protocol, tasks, references) if _among(name, rows)]
        # A row of the paper that has a run as well (blockdiag) is a row of ours.
        there = set(runs["model"])
        ours = [row for row in rows if row in there or not any(is_row(t, row) for t in theirs)]
        named = ours or rows[:1]
        models = _known("model", named, runs["model"])
        spec = TableSpec(
            protocol, protocol, _cells(models, tasks), "", protocol, rule, tuple(tasks)
        )
        view, found = _view(collection, spec, rule, references, choose, digits)
        if any(len(entry.runs) or entry.rivals for entry in view.entries):
            tables += _tables(collection, spec, view, found, theirs)
    return tables


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
        f" ({RULE_LEGEND[view.rule]}), mean ±"
        " sample std (n) over n runs; fresh strings: the same checkpoints, on strings that nothing"
        " was chosen by",
        *paper.notes(),
        _verdict_legend(),
        *_error_legend(view),
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


def _error_legend(view: View) -> list[str]:
    if all(entry.metric.counts for entry in view.entries):
        return []
    return [
        "NRMSE: root of the summed squared error over the summed squared target, at every position"
        " of every test series; lower is better, so below the paper's number is better than it;"
        f" reproduced = within {RELATIVE_TOLERANCE} times that number; at chance = no better than"
        " the best baseline; look and fresh strings are the same test series; nothing is guessed or"
        " solved, and nothing is learned to 0.95"
    ]


def _printed(protocol: str, tasks: Iterable[str], references: Path | None) -> list[str]:
    """The models that the paper of a protocol prints numbers of."""
    moduli = ((task, printed_modulus(task, protocol, references)) for task in tasks)
    found = (row for task, m in moduli for row in printed(task, m, protocol, references))
    return list(dict.fromkeys(row.model for row in found))


def _among(name: str, rows: Iterable[str]) -> bool:
    return any(is_row(name, row) for row in rows)


def _cells(models: Iterable[str], tasks: Iterable[str]) -> tuple[TableCell, ...]:
    pairs = [(task, model) for model in dict.fromkeys(models) for task in tasks]
    return tuple(TableCell((f"task={task}", f"model={model}")) for task, model in pairs)


def _known(kind: str, names: Sequence[str], there: Iterable[str]) -> list[str]:
    """`names`, or all there are; an error for one that is not there."""
    known = sorted(set(there) - {"?"})
    for name in names:
        if name not in known:
            raise unknown(f"{kind} (among these runs)", name, known, exit_code=2)
    return list(dict.fromkeys(names)) or known


def _verdict_legend() -> str:
    return (
        f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval within"
        f" {TOLERANCE} of the paper's number at its printed precision; above, below = all of it on"
        " that side; inconclusive = too wide to tell; not learned = the median run has less than"
        f" {LEARNED} at the training length; at chance = guessing under the same rule explains it;"
        " not comparable = another rule, length or protocol than the paper's"
    )
