"""Missing parts of a table: runs under way and cells with too few, each with its command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.selection import select
from lrbench.report.output.cells import escape
from lrbench.report.output.display import plural
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import UnderWay
from lrbench.report.suite.entries import MAIN, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.suite.rules import violations
from lrbench.tables import SUITE, TableCell, TableSpec

FEW = 3  # of what is left of a row, said in full
NOTHING = "Nothing: every cell has the runs that were planned."
PUBLISHED = (
    "Published runs are not trained again where they lie in `outputs/`: first"
    " `cp -r results/{name}/records/. outputs/`, and afterwards `lrbench publish {name}`."
)
GOES_ON = "An unfinished run goes on where its checkpoints are; elsewhere it begins again."


def unfinished(spec: TableSpec, collection: Collection) -> Iterator[str]:
    """Yield an item for each cell that is short of runs or has some under way, and commands."""
    if spec.kind == SUITE:
        yield from _entries(spec, collection)
        return
    groups: dict[str, list[str]] = {}
    for cell, filled in zip(spec.cells, select(collection, spec), strict=True):
        going = filled.under_way
        ended = len(filled.runs) - filled.count("failed")
        if filled.lacking(ended) or going:
            line = f"- **{escape(_name(cell, filled))}**: {_progress(filled, ended, going)}"
            groups.setdefault(command(spec, cell), []).append(line)
    for typed, lines in groups.items():
        yield from lines
        yield f"\n  `{typed}`\n"
    if not groups:
        yield f"{NOTHING}\n"
        return
    yield f"{PUBLISHED.format(name=spec.name)}\n"
    if collection.under_way:
        yield f"{GOES_ON}\n"


def _entries(spec: TableSpec, collection: Collection) -> Iterator[str]:
    """Yield an item for each row of a suite that has a rule of entering left to keep."""
    lock = read_lock(spec.name)
    suite = suite_of(collection, spec, lock, spec.rule)
    models = {cell.label or cell.model: cell.model for cell in spec.cells}
    labels = dict.fromkeys([*models, *(e.label for e in suite.entries if e.division == MAIN)])
    left = {label: wrong for label in labels if (wrong := violations(suite, lock, label, True))}
    for label, wrong in left.items():
        typed = f"lrbench sweep --table {spec.name} model={models.get(label, label.split()[0])}"
        more = f", and {len(wrong) - FEW} more" if len(wrong) > FEW else ""
        yield f"- **{escape(label)}**: {escape('; '.join(wrong[:FEW]))}{more}. `{typed}`"
    yield "\n" if left else f"{NOTHING}\n"


def command(spec: TableSpec, cell: TableCell) -> str:
    """Return what makes, or goes on with, the runs of a cell."""
    return f"lrbench sweep --table {spec.name} task={cell.task} model={cell.model}"


def _progress(filled: FilledCell, ended: int, going: Iterable[UnderWay]) -> str:
    wanted = filled.lacking(ended)
    if not wanted and filled.wanted:
        wanted = f"{ended} of {filled.wanted} runs have ended"
    failed = filled.count("failed")
    parts = [wanted, f"{failed} failed" if failed else "", *map(_steps, going)]
    return ", ".join(part for part in parts if part) + "."


def _steps(run: UnderWay) -> str:
    budget = f" of {plural(run.budget, 'update')}" if run.budget else " updates"
    look = f" ({run.last_look})" if run.last_look else ""
    return f"seed {run.seed} is unfinished, {run.steps:,}{budget}{look}"


def _name(cell: TableCell, filled: FilledCell) -> str:
    """Its task and row; where a corpus has several training splits, the splits of this one too."""
    splits = f" ({', '.join(cell.splits)})" if cell.splits else ""
    return f"{filled.task} x {filled.label}{splits}"
