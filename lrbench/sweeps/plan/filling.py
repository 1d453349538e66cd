"""The fingerprints of a table's cells: a run fills a cell where a sweep would find it finished.

Composing a cell takes time and torch. Fingerprints of the built-in tables are kept in a file, so
that a report composes only where runs have another one, and then it can tell what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.report.runs.record import flat
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import table_cells
from lrbench.tables import SUITE, TableCell, TableSpec, key_of_words

Compose = Callable[[Sequence[str]], Config]


def fingerprinted(table: TableSpec, others: Sequence[TableCell], compose: Compose) -> TableSpec:
    """Return the table with fingerprint and settings of the cells `others`.

    A cell that cannot be composed says why (`unknown`).
    """
    cells = (_told(table, cell, compose) if cell in others else cell for cell in table.cells)
    return replace(table, cells=tuple(cells))


def fingerprints(tables: Sequence[TableSpec], compose: Compose) -> dict[str, str]:
    """Return the fingerprint of every cell of these tables by its words, to be kept.

    Not of a suite's: it has rules of its own.
    """
    return {
        key_of_words(cell): _made(table, cell, compose).fingerprint
        for table in tables
        if table.kind != SUITE
        for cell in table.cells
    }


def _told(table: TableSpec, cell: TableCell, compose: Compose) -> TableCell:
    try:
        made = _made(table, cell, compose)
    except UserError as error:
        return replace(cell, unknown=str(error).splitlines()[0])
    return replace(cell, fingerprint=made.fingerprint, settings=flat(made.settings))


def _made(table: TableSpec, cell: TableCell, compose: Compose) -> Cell:
    """Return what a sweep makes of a cell; of several seeds the first, as all have one name."""
    return Cell.of(compose(next(iter(table_cells(replace(table, cells=(cell,)), [])))))
