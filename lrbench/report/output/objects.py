"""The whole report as plain lists and dictionaries, which JSON can hold."""

from __future__ import annotations

from typing import Any

from lrbench.report.output.cells import Table
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.request import Request, narrowed, tables_of


def to_objects(collection: Collection, request: Request) -> dict[str, Any]:
    """Return the numbers, tables and unusable files of a report.

    numbers: the rows of runs.csv; what is not known is None. Raises UserError as `tables_of` does.
    """
    rows = narrowed(collection, request).every_row.astype(object)
    return {
        "numbers": rows.where(rows.notna(), None).to_dict("records"),
        "tables": [_table(table) for table in tables_of(collection, request)],
        "problems": [{"file": str(path), "reason": reason} for path, reason in collection.problems],
    }


def _table(table: Table) -> dict[str, Any]:
    cells = [
        [{"text": cell.text, "values": list(cell.values)} for cell in row] for row in table.rows
    ]
    return {
        "title": table.title,
        "columns": [column.title for column in table.columns],
        "rows": cells,
        "notes": list(table.notes),
    }
