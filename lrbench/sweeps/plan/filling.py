"""The fingerprints of a table's cells: a run fills a cell where a sweep would find it finished.

Composing a cell takes time and torch. Fingerprints of the built-in tables are kept in a file, so
that a report composes only where runs have another one, and then it can tell what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.report.grids.selection import others_there
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.record import flat
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import table_cells
from lrbench.tables import SUITE, TableCell, TableSpec, key_of_words

Compose = Callable[[Sequence[str]], Config]


def fingerprinted(table: TableSpec, collection: Collection, compose: Compose) -> TableSpec:
    """Return the table with fingerprint and settings of each cell that has runs of another one.

    A cell that cannot be composed says why (`unknown`).
    """
    others = others_there(collection, table)
    cells = (_composed(table, cell, compose) if cell in others else cell for cell in table.cells)
    return replace(table, cells=tuple(cells))


def _composed(table: TableSpec, cell: TableCell, compose: Compose) -> TableCell:
    words = list(table_cells(replace(table, cells=(cell,)), []))
    if len(words) > 1:  # a word with several values: several cells of a sweep, and one of a table
        return cell
    try:
        made = Cell.of(compose(words[0]))
    except UserError as error:
        return replace(cell, unknown=str(error).splitlines()[0])
    return replace(cell, fingerprint=made.fingerprint, settings=flat(made.settings))


def fingerprints(tables: Sequence[TableSpec], compose: Compose) -> dict[str, str]:
    """Return the fingerprint of every cell of these tables by its words, to be kept."""
    return {
        key_of_words(cell): Cell.of(compose(words)).fingerprint
        for table in tables
        if table.kind != SUITE
        for cell in table.cells
        for words in table_cells(replace(table, cells=(cell,)), [])
    }
