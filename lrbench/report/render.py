"""The whole report in one of its formats."""

from __future__ import annotations

from pathlib import Path

from lrbench.errors import unknown
from lrbench.report.cells import to_markdown
from lrbench.report.collect import Collection
from lrbench.report.notes import reading_notes
from lrbench.report.table import report_tables


def render(collection: Collection, format: str = "markdown", references: Path | None = None) -> str:
    """Return the whole report: 'markdown' tables, or 'csv', the tidy runs.csv they come from.

    `references` is another folder of reference tables. Raises UserError for an unknown format.
    """
    if format == "csv":
        return str(collection.frame.to_csv(index=False, lineterminator="\n"))
    if format != "markdown":
        raise unknown("format", format, ["markdown", "csv"], exit_code=2)
    parts = [to_markdown(table) for table in report_tables(collection, references)]
    if not parts:
        parts = ["No finished run yet: lrbench train makes one.\n"]
    left_out = reading_notes(collection)
    if left_out:
        parts.append("\n".join(left_out) + "\n")
    return "\n".join(parts)
