"""The table of a bundle, the runs that stand in it, and their choice."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lrbench.checks import shown
from lrbench.errors import UserError
from lrbench.protocols.base import rule_names
from lrbench.report.grids.selection import select
from lrbench.report.output.cells import to_markdown
from lrbench.report.output.display import plural
from lrbench.report.runs.collection import Collection
from lrbench.report.suite.entries import folders_of, refuse_fingerprints, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.request import chosen_tables
from lrbench.tables import KINDS, SUITE, TableCell, TableSpec


@dataclass(frozen=True)
class TableChoice:
    """A table of cells, or models (rows) and tasks (columns), empty for all; and its rule.

    Of a suite `rows` are those of its table, empty for all.
    """

    table: TableSpec | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rule: str = "best"

    @property
    def name(self) -> str:
        return self.table.name if self.table else "runs"

    def as_json(self) -> dict[str, Any]:
        """Return what the manifest keeps."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TableChoice:
        """Return the choice of a manifest; UserError where it is none."""
        try:
            table = content["table"]
            if table is not None:
                cells = [
                    TableCell(
                        _strings(cell["overrides"]),
                        _text_or_none(cell["reference"]),
                        _text_or_none(cell.get("label")),
                        own_recipe=_yes_or_no(cell.get("own_recipe", False)),
                        fingerprint=_text(cell.get("fingerprint", "")),
                    )
                    for cell in table["cells"]
                ]
                table = TableSpec(
                    *(_text(table["name"]), _text(table["title"]), tuple(cells)),
                    source=_text(table["source"]),
                    protocol=_text(table["protocol"]),
                    rule=_text(table["rule"]),
                    columns=_strings(table["columns"]),
                    kind=_kind(table),
                )
            rows, columns = _strings(content["rows"]), _strings(content["columns"])
            choice = cls(table, rows, columns, _text(content["rule"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"the manifest's 'choice' of a table is damaged: {error}") from error
        if choice.rule not in rule_names():
            raise UserError(f"the manifest's rule '{choice.rule[:40]}' is none of {rule_names()}")
        return choice

    def folders(self, collection: Collection, choose: tuple[str, ...] = ()) -> list[str]:
        """Return the folders of the runs in the table.

        Raises UserError where there is none, or where configurations compete for a cell.
        """
        if self.table:
            refuse_fingerprints(self.table, choose)
        if self.table and self.table.kind == SUITE:
            suite = suite_of(collection, self.table, read_lock(self.table.name), self.rule)
            found = folders_of(suite, self.rows)
        elif self.table:
            found = self._by_cell(collection, choose)
        else:
            found = self._all(collection, choose)
        if not found:
            raise UserError(
                f"no run of {self.name} to put into a bundle\n"
                "lrbench report --table shows what there is; --runs DIR names another folder"
            )
        return sorted(found)

    def unfinished(self, collection: Collection) -> list[str]:
        """Return the folders of runs that would stand in the table, and have no result yet."""
        under_way, table = collection.under_way, self.table
        if table and table.kind == SUITE:
            there = [run for run in under_way if run.protocol == table.protocol]
            there = [run for run in there if not self.rows or run.model in self.rows]
        elif table:
            cells = select(collection, table)
            there = [run for filled in cells for run in filled.under_way]
        else:
            there = [
                run
                for run in under_way
                if (not self.rows or run.model in self.rows)
                and (not self.columns or run.task in self.columns)
            ]
        return sorted({run.folder for run in there})

    def markdown(self, collection: Collection) -> str:
        """Return the tables of the runs in `collection`."""
        if self.table:
            tables = paper_tables(collection, self.table, self.rule)
        else:
            tables = chosen_tables(collection, self.rows, self.columns, self.rule)
        return "\n".join(to_markdown(table) for table in tables)

    def _by_cell(self, collection: Collection, choose: tuple[str, ...]) -> set[str]:
        assert self.table is not None
        found: set[str] = set()
        for filled in select(collection, self.table, choose):
            if filled.contested:
                raise _contested(filled.task, filled.model, filled.rivals)
            found |= set(filled.runs["folder"])
        return found

    def _all(self, collection: Collection, choose: tuple[str, ...]) -> set[str]:
        runs = collection.runs
        for name, column, given in (
            ("rows", "model", self.rows),
            ("columns", "task", self.columns),
        ):
            missing = [wanted for wanted in given if wanted not in set(runs[column])]
            if missing:
                raise _none_ended(collection, name, column, missing[0])
            runs = runs[runs[column].isin(given)] if given else runs
        if choose:
            runs = runs[[name.startswith(choose) for name in runs["fingerprint"]]]
        for (_, task, model), cell in runs.groupby(["protocol", "task", "model"]):
            rivals = _fingerprints(cell)
            if len(rivals) > 1:
                raise _contested(str(task), str(model), rivals)
        return set(runs["folder"])


def _none_ended(collection: Collection, option: str, column: str, name: str) -> UserError:
    """What to say of a model or task of which no run has ended."""
    going = sum(getattr(run, column) == name for run in collection.under_way)
    none = f"no run of that {column}"
    text = f"{none} has ended: {plural(going, 'run')} under way" if going else none
    ended = ", ".join(sorted(set(collection.runs[column])))
    there = f"there are: {ended}" if ended else "no other run has ended there"
    fix = "lrbench status shows how far runs are; --runs DIR names another folder"
    return UserError(f"--{option} {shown(name)}: {text}\n{there}\n{fix}")


def _fingerprints(cell: pd.DataFrame) -> tuple[str, ...]:
    """Those of runs that ended, of failed ones only where no other is there."""
    ended = cell[cell["status"] != "failed"]
    return tuple(sorted(set((ended if len(ended) else cell)["fingerprint"])))


def _contested(task: str, model: str, rivals: tuple[str, ...]) -> UserError:
    return UserError(
        f"{len(rivals)} configurations compete for {task} x {model}: {', '.join(rivals)[:200]}\n"
        f"a bundle has one of them: --fingerprint {rivals[0]}"
    )


def _kind(table: dict[str, Any]) -> str:
    """The kind of a table; bundles of earlier versions do not tell it."""
    kind = _text(table.get("kind", KINDS[0]))
    if kind not in KINDS:
        raise UserError(f"the manifest's kind of table '{kind[:40]}' is none of {KINDS}")
    return kind


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where a text belongs")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a {type(value).__name__} where true or false belongs")
    return value


def _strings(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"a {type(values).__name__} where a list belongs")
    return tuple(_text(value) for value in values)
