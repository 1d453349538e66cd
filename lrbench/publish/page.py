"""README.md of a published table and its figures, from runs.csv, settings.json and notes.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lrbench.publish.disagreements import Judged, disagreements, judged, warnings
from lrbench.publish.layout import FIGURES, NOTES, NUMBERS, PAGE, SETTINGS, Files, spec_of
from lrbench.publish.notes import Notes, check_patterns, read_notes
from lrbench.publish.provenance import provenance
from lrbench.publish.unfinished import unfinished
from lrbench.report import PARTS
from lrbench.report.figures.draw import Drawing, drawings
from lrbench.report.output.cells import Table, escape, to_markdown
from lrbench.report.runs.archive import read_archive
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.request import Request, tables_of
from lrbench.tables import SUITE, WALKS, TableSpec

HEAD = "<!-- made by lrbench publish from runs.csv, settings.json and notes.yaml; edit those -->"


@dataclass(frozen=True)
class PageFiles:
    """A table's generated files, and what a person should look at."""

    files: Files
    warnings: tuple[str, ...] = ()


def page(folder: Path) -> PageFiles:
    """Return README.md and figures/*.svg of a table's folder, the same bytes for the same files.

    Raises UserError for notes that may not stand there, and where matplotlib is not installed.
    """
    spec = spec_of(folder)
    collection = read_archive(folder)
    notes = read_notes(folder / NOTES)
    cells = [] if spec.kind in ("lengths", SUITE, WALKS) else judged(collection, spec)
    names = [cell.name for cell in cells]
    check_patterns(folder / NOTES, notes, names)
    request = Request(table=spec)
    drawn = list(drawings(collection, request))
    tables = tables_of(collection, request)
    text = "\n".join(_lines(spec, collection, notes, cells, tables, drawn))
    figures = {f"{FIGURES}/{one.name}.svg": one.files["svg"] for one in drawn}
    said = tuple(f"{spec.name}: {line}" for line in warnings(cells, notes))
    return PageFiles({PAGE: text.encode(), **figures}, said)


def _lines(
    spec: TableSpec,
    collection: Collection,
    notes: Notes,
    cells: Sequence[Judged],
    tables: Sequence[Table],
    drawn: Sequence[Drawing],
) -> Iterator[str]:
    """Of `tables`, those of the paper's layout have titles that begin with that of `spec`."""
    own = [table for table in tables if table.title.startswith(f"{spec.title}:")]
    main = [table for table in own if table.part == PARTS[0]] or tables[:1]
    details = [table for table in tables if table not in main]
    yield from (HEAD, f"# {escape(spec.title)}", "")
    lookups = f", those of lookups from [{SETTINGS}]({SETTINGS})" if collection.baselines else ""
    numbers = f"Every number of ours in the tables is from [{NUMBERS}]({NUMBERS}){lookups}."
    yield f"Source: {escape(spec.source) or 'ours'}. {numbers}"
    yield ""
    if notes.about:
        yield f"{notes.about}\n"
    figures = [f"![{escape(one.caption)}]({FIGURES}/{one.name}.svg)\n" for one in drawn]
    first = 1 if spec.kind in (SUITE, WALKS) else 0  # the picture is the answer of these
    yield from figures[:first]
    yield "## Table\n"
    yield from (_below(table, spec, heading=len(main) > 1) for table in main)
    yield from figures[first:]
    yield from notes.section()
    if cells:
        yield "## Where we and the paper disagree\n"
        yield from disagreements(cells, notes)
    yield "## Unfinished\n"
    yield from unfinished(spec, collection)
    if details:
        yield "## How sure\n"
    yield from (_below(table, spec) for table in details)
    yield "## How it was made\n"
    yield from provenance(spec, collection, notes)


def _below(table: Table, spec: TableSpec, heading: bool = True) -> str:
    """A table as markdown under a heading of a level below, without the page's title in it."""
    title, _, rest = to_markdown(table).partition("\n\n")
    own = title.removeprefix("## ").removeprefix(f"{escape(spec.title)}: ")
    return f"### {own}\n\n{rest}" if heading else rest
