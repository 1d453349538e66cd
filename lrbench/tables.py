"""Tables that a sweep runs and a report prints: a list of cells, not a rectangle.

A built-in table is a file in conf/table/, a user's own one a YAML file anywhere or a registered
`TableSpec`. Each cell is a set of overrides, as they are typed after `lrbench train`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrbench.errors import UserError, unknown
from lrbench.locations import conf_dir
from lrbench.protocols.base import rule_names

KINDS = ("paper", "lengths", "prefixes", "depths")
KEYS = ("title", "source", "kind", "protocol", "rule", "columns", "common", "cells")


@dataclass(frozen=True)
class TableCell:
    """One cell: its overrides, and the name of the row of the paper it is compared with.

    Without `reference` the paper's row is found by the model's name. `label` names its row; without
    it that is the model, and what sets the cell apart from others of it.
    """

    overrides: tuple[str, ...]
    reference: str | None = None
    label: str | None = None

    @property
    def task(self) -> str:
        return self._value("task")

    @property
    def model(self) -> str:
        return self._value("model")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of a corpus that it is tested on, where its overrides name them."""
        return tuple(re.findall(r"\w+", self._value("protocol.test_splits")))

    def _value(self, key: str) -> str:
        values = [
            override.partition("=")[2]
            for override in self.overrides
            if override.startswith(f"{key}=")
        ]
        return values[-1] if values else ""


@dataclass(frozen=True)
class TableSpec:
    """A table: where it was printed, the rule of its numbers, its columns and cells.

    Columns are tasks, of a protocol over a corpus splits; of a table of the kind `lengths` they are
    the lengths that its runs were scored at. Before those of a table of the kind `prefixes` comes
    the curve of prefix(t), of the kind `depths` the number of layers that is enough.
    """

    name: str
    title: str
    cells: tuple[TableCell, ...]
    source: str = ""
    protocol: str = "fan2024"
    rule: str = "best"
    columns: tuple[str, ...] = field(default=())
    kind: str = "paper"

    @property
    def rows(self) -> tuple[str, ...]:
        """The models, in the order in which they first appear."""
        return tuple(dict.fromkeys(cell.model for cell in self.cells))


_REGISTERED: dict[str, TableSpec] = {}


def register_table(table: TableSpec) -> TableSpec:
    """Make a table known as `--table NAME`, from a plugin."""
    _REGISTERED[table.name] = table
    return table


def table_names() -> list[str]:
    """Every table known by name."""
    return sorted({*(path.stem for path in (conf_dir() / "table").glob("*.yaml")), *_REGISTERED})


def load_table(name: str) -> TableSpec:
    """Return the table of a name, or of a YAML file; UserError where there is none."""
    return _REGISTERED[name] if name in _REGISTERED else _read(table_file(name))


def table_file(name: str) -> Path:
    """Return the YAML file of a table, by name or by path; UserError where there is none."""
    if name in _REGISTERED:
        raise UserError(f"table '{name}' is registered by a plugin: it has no file")
    if name in table_names():
        return conf_dir() / "table" / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return Path(name)
    if name.endswith((".yaml", ".yml")):
        raise UserError(
            f"no table file at '{name}'\n"
            f"known by name: {', '.join(table_names())}\n"
            "fix: name one of these, or a YAML file like those of lrbench tables"
        )
    raise unknown("table", name, table_names())


def _read(path: Path) -> TableSpec:
    from omegaconf import OmegaConf
    from yaml import YAMLError  # type: ignore[import-untyped]

    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"table '{path}' cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise UserError(f"table '{path}' has no list 'cells'; see conf/table/ for an example")
    for key in content:
        if key not in KEYS:
            raise unknown(f"key of table '{path}'", str(key), list(KEYS))
    rule, kind = content.get("rule", "best"), content.get("kind", "paper")
    for key, value, known in (("rule", rule, rule_names()), ("kind", kind, KINDS)):
        if value not in known:
            raise unknown(f"{key} of table '{path}'", str(value), list(known))
    common = _strings(path, content.get("common", []))
    cells = tuple(_cell(path, cell, common) for cell in content["cells"])
    return TableSpec(
        name=path.stem,
        title=str(content.get("title", path.stem)),
        cells=cells,
        source=str(content.get("source", "")),
        protocol=str(content.get("protocol", "fan2024")),
        rule=rule,
        columns=_strings(path, content.get("columns", [])),
        kind=kind,
    )


def _cell(path: Path, cell: Any, common: Sequence[str]) -> TableCell:
    if not isinstance(cell, dict) or not set(cell) <= {"overrides", "reference", "label"}:
        keys = "'overrides' and perhaps 'reference' and 'label'"
        raise UserError(f"table '{path}': a cell is {keys}: {cell}")
    own = _strings(path, cell.get("overrides"))
    said = {override.partition("=")[0] for override in own}
    overrides = (*(override for override in common if override.partition("=")[0] not in said), *own)
    made = TableCell(overrides, cell.get("reference"), cell.get("label"))
    for key in ("task", "model"):
        if not getattr(made, key):
            raise UserError(f"table '{path}': a cell without {key}=: {' '.join(made.overrides)}")
    return made


def _strings(path: Path, overrides: Any) -> tuple[str, ...]:
    if not isinstance(overrides, list) or not all(
        isinstance(override, str) for override in overrides
    ):
        raise UserError(f"table '{path}': expected a list of words, not {overrides}")
    return tuple(overrides)
