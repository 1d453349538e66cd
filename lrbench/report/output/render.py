"""The whole report in one of its formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lrbench.errors import unknown
from lrbench.report.output.cells import Table, to_markdown
from lrbench.report.output.display import plural
from lrbench.report.runs.collection import Collection, cell_of
from lrbench.report.runs.columns import Environment
from lrbench.report.tables.notes import reading_notes, reading_texts
from lrbench.report.tables.request import Request, narrowed, tables_of

FORMATS = ("markdown", "csv", "latex", "html")
NOTHING = "No finished run yet: lrbench train makes one.\n"


def render(
    collection: Collection,
    format: str = "markdown",
    references: Path | None = None,
    request: Request | None = None,
) -> str:
    """Return the whole report in one of FORMATS.

    'csv' without a choice of cells is the tidy runs.csv all tables come from, with the runs that
    have not ended below it, as status 'unfinished'. `references` is another folder of reference
    tables. Raises UserError for an unknown format, and as `tables_of` does.
    """
    request = request or Request()
    if format not in FORMATS:
        raise unknown("format", format, FORMATS, exit_code=2)
    if format == "csv" and not request.selective:
        return narrowed(collection, request).csv()
    tables = tables_of(collection, request, references)
    if format == "csv":
        return tables_csv(tables)
    if format == "latex":
        from lrbench.report.output.latex import to_latex

        return to_latex(tables, reading_texts(collection))
    if format == "html":
        return _page(collection, request, tables)
    parts = [to_markdown(table) for table in tables] or [NOTHING]
    unused_files = reading_notes(collection)
    if unused_files:
        parts.append("\n".join(unused_files) + "\n")
    return "\n".join(parts)


def tables_csv(tables: Sequence[Table]) -> str:
    """Return tables below each other: a column for each title there is, the first names the table.

    Columns of one title are told apart by a number after it.
    """
    rows = []
    for table in tables:
        titles: list[str] = []
        for column in table.columns:
            twins = titles.count(column.title)
            titles.append(f"{column.title} {twins + 1}" if twins else column.title)
        for row in table.rows:
            texts = {title: cell.text for title, cell in zip(titles, row, strict=True)}
            rows.append({"table": table.title, **texts})
    stream = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["table"]
    writer = csv.DictWriter(stream, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _page(collection: Collection, request: Request, tables: Sequence[Table]) -> str:
    from lrbench.report.figures.draw import PAGE, drawings
    from lrbench.report.output.html import Page, to_html
    from lrbench.report.output.render import provenance

    shown = narrowed(collection, request)
    drawn = drawings(collection, request, (PAGE,))
    page = Page(
        title=request.table.title if request.table else "Length extrapolation",
        about=(
            f"{plural(len(shown.runs), 'run')} of {plural(_cells(shown), 'cell')}",
            *provenance(shown),
            "made by lrbench report",
        ),
        tables=tables,
        figures=[(drawing.caption, drawing.files[PAGE].decode()) for drawing in drawn],
        problems=reading_texts(collection),
    )
    return to_html(page)


def _cells(collection: Collection) -> int:
    keys = ["protocol", "task", "model", "fingerprint"]
    return len(collection.runs.drop_duplicates(keys))


VERSIONS = ("lrbench", "torch", "python")
MOST = 4  # values of one kind that are named
COMMIT_DIGITS = 10


def provenance(collection: Collection) -> Iterator[str]:
    """Yield 'newest run 2026-11-21', 'torch 2.13.0' and the like; what is not told is left out."""
    found = list(_environments(collection))
    dates = [date for one in found if (date := _date(one.get("date")))]
    if dates:
        yield f"newest run {max(dates):%Y-%m-%d}"
    for name in VERSIONS:
        yield from _named(name, (one.get(name) for one in found))
    yield from _named("commit", (str(one.get("commit") or "")[:COMMIT_DIGITS] for one in found))
    yield from _named("on", collection.runs["device"].dropna())


def _environments(collection: Collection) -> Iterator[Environment]:
    """Yield what is known of each cell."""
    for cell in sorted({cell_of(folder) for folder in collection.runs["folder"]}):
        if cell in collection.environments:
            yield collection.environments[cell]


def _date(text: Any) -> datetime | None:
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else None  # a naive one cannot be compared with the others


def _named(name: str, values: Iterable[Any]) -> Iterator[str]:
    there = sorted({str(value) for value in values if value})
    more = f" and {len(there) - MOST} more" if len(there) > MOST else ""
    if there:
        yield f"{name} {', '.join(there[:MOST])}{more}"
