"""Tables that a sweep runs and a report prints: a list of cells, not a rectangle.

A built-in table is a file in conf/table/, a user's own one a YAML file anywhere or a registered
`TableSpec`. Each cell is a set of overrides, as they are typed after `lrbench train`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lrbench.checks import nearest, shown
from lrbench.errors import UserError, listed, unknown
from lrbench.locations import conf_dir
from lrbench.protocols.base import declared, rule_names
from lrbench.registry import check_name
from lrbench.walks import Walk, read_walk

WALKS = "walks"  # the kind whose cells are the stations of walks
SUITE = "suite"  # the kind whose cells are each model on each task
KINDS = ("paper", "lengths", "prefixes", "depths", SUITE, WALKS)
KEYS = ("title", "source", "kind", "protocol", "printed", "rule", "columns", "common", "cells")
RECIPE, OURS = "recipe", "ours"  # of a cell whose settings are not the paper's
PRODUCT = ("tasks", "models", "search")  # of a table whose cells are each model on each task
WITHOUT = {SUITE: ("printed", "columns"), WALKS: ("printed", "columns")}  # keys that say nothing
NAMED = ("overrides", "label")  # of a row or a column of a table of each model on each task
CELL = (*NAMED, "reference", RECIPE)


@dataclass(frozen=True)
class TableCell:
    """One cell: its overrides, and the name of the row of the paper it is compared with.

    Without `reference` the paper's row is found by the model's name. `label` names its row; without
    it that is the model, and what sets the cell apart from others of it. `column` names its column,
    in a table of each model on each task. `own_recipe` says that the settings are not the paper's
    where it tells them (`recipe: ours` in a file).

    `fingerprint` is that of the runs that a sweep makes of it, which alone fill the cell; empty
    where that is not known, and then every run with its settings does. `settings`, flat, are those
    it is of; they are there where somebody asked, since composing them takes long. `unknown` is why
    they could not be composed.
    """

    overrides: tuple[str, ...]
    reference: str | None = None
    label: str | None = None
    column: str | None = None
    own_recipe: bool = False
    fingerprint: str = ""
    settings: Mapping[str, Any] | None = field(default=None, compare=False)
    unknown: str = ""

    @cached_property
    def task(self) -> str:
        return self._value("task")

    @cached_property
    def model(self) -> str:
        return self._value("model")

    @cached_property
    def protocol(self) -> str:
        """The protocol that its overrides name, "" for none."""
        return self._value("protocol")

    @cached_property
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
class TableTask:
    """A column of a table of each model on each task: its name, and the overrides of its cells."""

    label: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class TableSearch:
    """The search that comes before a cell is trained: for every model the same.

    grid: KEY=V1,V2, the values that are tried. settings: overrides of the runs that try them.
    enough: the validation accuracy at which a point is good enough; more than 1: no point is.
    """

    grid: tuple[str, ...]
    settings: tuple[str, ...] = ()
    enough: float = 2.0

    def choice(self, tried: Sequence[tuple[float, float] | None]) -> int | None:
        """Return which point is taken: the first that is good enough, else that of lowest loss.

        tried: (validation accuracy, loss) of each point in the order of the grid, None where a run
        did not end well. None: none did.
        """
        return first_enough(tried, self.enough)


def first_enough(tried: Sequence[tuple[float, float] | None], enough: float) -> int | None:
    """Return the first of (accuracy, loss) with so much accuracy, else that of the lowest loss."""
    known = [(at, one) for at, one in enumerate(tried) if one is not None]
    good = (at for at, (accuracy, _) in known if accuracy >= enough)
    return next(good, min(known, key=lambda pair: pair[1][1], default=(None,))[0])


@dataclass(frozen=True)
class TableSpec:
    """A table: where it was printed, the rule of its numbers, its columns and cells.

    Columns are tasks, of a protocol over a corpus splits; of a table of the kind `lengths` they are
    the lengths that its runs were scored at. Before those of a table of the kind `prefixes` comes
    the curve of prefix(t), of the kind `depths` the number of layers that is enough.

    A table of the kind `suite` is each model on each of `tasks`, so a model that it does not list
    can stand in it too; `common` are the overrides of all its cells, and `search` what is tried for
    each first. Tasks of one label are one column.

    `printed` says whose numbers stand beside ours, by names/tasks.csv, where these are not those of
    the protocol's own paper.
    """

    name: str
    title: str
    cells: tuple[TableCell, ...]
    source: str = ""
    protocol: str = "fan2024"
    rule: str = "best"
    columns: tuple[str, ...] = field(default=())
    kind: str = "paper"
    tasks: tuple[TableTask, ...] = ()
    common: tuple[str, ...] = ()
    search: TableSearch | None = None
    walks: tuple[Walk, ...] = ()
    printed: str = ""

    @property
    def paper(self) -> str:
        """Whose printed numbers these are: a name of the first column of names/tasks.csv."""
        return self.printed or self.protocol

    @property
    def rows(self) -> tuple[str, ...]:
        """The models, in the order in which they first appear."""
        return tuple(dict.fromkeys(cell.model for cell in self.cells))

    def with_model(self, name: str) -> tuple[TableCell, ...]:
        """Return the cells of a model that the table does not list: one for each task."""
        return _on_each(self.tasks, TableCell((f"model={name}",)), self.common)


_REGISTERED: dict[str, TableSpec] = {}
_REGISTERED_BY: dict[str, str] = {}  # {table: the module that did}


def register_table(table: TableSpec) -> TableSpec:
    """Make a table known as `--table NAME`, from a plugin: the module that calls this.

    Raises UserError where a built-in table or another module's has this name.
    """
    check_name("table", table.name)
    module = str(sys._getframe(1).f_globals["__name__"])
    owner = _REGISTERED_BY.get(table.name, module)
    if (conf_dir() / "table" / f"{table.name}.yaml").is_file():
        owner = "lrbench"
    if owner != module:
        raise UserError(f"table '{table.name}' is already registered by {owner}")
    _REGISTERED[table.name] = table
    _REGISTERED_BY[table.name] = module
    return table


def registered_by(name: str) -> str:
    """Return the module that registered a table, "" for one of a file."""
    return _REGISTERED_BY.get(name, "")


def table_names() -> list[str]:
    """Every table known by name."""
    return sorted({*(path.stem for path in (conf_dir() / "table").glob("*.yaml")), *_REGISTERED})


def load_table(name: str) -> TableSpec:
    """Return the table of a name, or of a YAML file; UserError where there is none."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    spec = _read(table_file(name))
    kept = _kept_fingerprints()
    cells = (replace(cell, fingerprint=kept.get(key_of_words(cell), "")) for cell in spec.cells)
    return replace(spec, cells=tuple(cells))


def fingerprints_file() -> Path:
    """Return the file with the fingerprints of the built-in tables' cells, by `key_of_words`.

    `python -m benchmarks.fingerprints` makes it, and a test compares it with what a sweep makes.
    """
    return conf_dir() / "table" / "fingerprints.json"


def key_of_words(cell: TableCell) -> str:
    """Return the digits that stand for a cell's overrides where its fingerprint is kept."""
    return hashlib.sha256(" ".join(cell.overrides).encode()).hexdigest()[:12]


def _kept_fingerprints() -> dict[str, str]:
    try:
        kept: dict[str, str] = json.loads(fingerprints_file().read_bytes())
    except FileNotFoundError:
        return {}
    return kept


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
            f"no table file at '{shown(name)}'.{nearest(Path(name).stem, table_names())}\n"
            f"{listed('table', table_names())}; to start from one: lrbench tables NAME --yaml"
        )
    raise unknown("table", name, table_names())


def _read(path: Path) -> TableSpec:
    from omegaconf import OmegaConf
    from yaml import YAMLError  # type: ignore[import-untyped]

    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"table '{path}' cannot be read: {' '.join(str(error).split())}") from error
    kind = str(content.get("kind", "paper")) if isinstance(content, dict) else ""
    listed = {SUITE: ("tasks", "models"), WALKS: (WALKS,)}.get(kind, ("cells",))
    if not isinstance(content, dict) or any(not isinstance(content.get(k), list) for k in listed):
        missing = " and ".join(f"'{key}'" for key in listed)
        raise UserError(f"table '{path}' has no list {missing}; see conf/table/ for an example")
    keys = [key for key in KEYS[:-1] if key not in WITHOUT.get(kind, ())]
    keys += PRODUCT if kind == SUITE else listed
    for key in content:
        if key not in keys:
            raise unknown(f"key of table '{path}'", str(key), keys)
    typed = _strings(path, content.get("common", []))
    protocol = str(content.get("protocol") or _protocol_of(typed) or TableSpec.protocol)
    rule = str(content.get("rule") or declared(protocol).usual_rule)
    for key, value, known in (("rule", rule, rule_names()), ("kind", kind, KINDS)):
        if value not in known:
            raise unknown(f"{key} of table '{path}'", value, list(known))
    common = _with_protocol(typed, protocol)
    walks: tuple[Walk, ...] = ()
    tasks = tuple(_task(path, task) for task in content.get("tasks", []))
    if kind == SUITE:
        rows = [_cell(path, row, (), ("model",), NAMED) for row in content["models"]]
        cells = tuple(cell for row in rows for cell in _on_each(tasks, row, common))
    elif kind == WALKS:
        walks = tuple(
            read_walk(f"table '{path}'", walk, common, rule_names()) for walk in content[WALKS]
        )
        cells = _of_walks(walks)
    else:
        cells = tuple(_cell(path, cell, common) for cell in content["cells"])
    _refuse_other_protocols(path, protocol, cells)
    return TableSpec(
        name=path.stem,
        title=str(content.get("title", path.stem)),
        cells=cells,
        source=str(content.get("source", "")),
        protocol=protocol,
        printed=str(content.get("printed", "")),
        rule=rule,
        columns=_strings(path, content.get("columns", [])),
        kind=kind,
        tasks=tasks,
        common=common if tasks else (),
        search=_search(path, content.get("search")),
        walks=walks,
    )


def _with_protocol(common: tuple[str, ...], protocol: str) -> tuple[str, ...]:
    """Return the overrides of all cells, with the protocol that the table names, if none is typed.

    Without it, a cell would be trained by the protocol that its task usually has.
    """
    named = _protocol_of(common) or protocol == TableSpec.protocol
    return common if named else (f"protocol={protocol}", *common)


def _protocol_of(overrides: Sequence[str]) -> str:
    """Return the protocol that overrides name, "" for none."""
    return TableCell(tuple(overrides)).protocol


def _refuse_other_protocols(path: Path, protocol: str, cells: Sequence[TableCell]) -> None:
    """A sweep would train such a cell, and no report of the table would show its runs."""
    for cell in cells:
        if cell.protocol not in ("", protocol):
            raise UserError(
                f"table '{path}' is of protocol {protocol}, and a cell of it is of another:"
                f" {' '.join(cell.overrides)}\nwrite protocol: {cell.protocol} for the table, or"
                " give those cells a table of their own"
            )


def _of_walks(walks: Sequence[Walk]) -> tuple[TableCell, ...]:
    """Return the cells of walks: a station's runs may be those of others, by other readings."""
    found: dict[tuple[str, ...], TableCell] = {}
    for walk in walks:
        for station in walk.every_station:
            label = f"{walk.label}: {station.label}"
            found.setdefault(station.overrides, TableCell(station.overrides, None, label))
    return tuple(found.values())


def _on_each(
    tasks: Sequence[TableTask], row: TableCell, common: Sequence[str]
) -> tuple[TableCell, ...]:
    """Return the cells of a row: its model on each task."""
    return tuple(
        TableCell((*common, *task.overrides, *row.overrides), None, row.label, task.label)
        for task in tasks
    )


def _task(path: Path, task: Any) -> TableTask:
    cell = _cell(path, task, (), ("task",), NAMED)
    return TableTask(cell.label or cell.task, cell.overrides)


def _search(path: Path, search: Any) -> TableSearch | None:
    if search is None:
        return None
    if not isinstance(search, dict) or not set(search) <= {"grid", "settings", "enough"}:
        keys = "'grid', and perhaps 'settings' and 'enough'"
        raise UserError(f"table '{path}': 'search' has {keys}: {search}")
    enough = search.get("enough", TableSearch.enough)
    if not isinstance(enough, int | float):
        raise UserError(f"table '{path}': 'enough' of a search is an accuracy, not {enough}")
    grid, settings = _strings(path, search.get("grid")), search.get("settings", [])
    return TableSearch(grid, _strings(path, settings), float(enough))


def _cell(
    path: Path,
    cell: Any,
    common: Sequence[str],
    needed: Sequence[str] = ("task", "model"),
    keys: Sequence[str] = CELL,
) -> TableCell:
    if not isinstance(cell, dict) or not set(cell) <= set(keys):
        first, *others = (f"'{key}'" for key in keys)
        raise UserError(
            f"table '{path}': a cell is {first} and perhaps {', '.join(others)}: {cell}"
        )
    own = _strings(path, cell.get("overrides"))
    said = {override.partition("=")[0] for override in own}
    overrides = (*(override for override in common if override.partition("=")[0] not in said), *own)
    for key in ("reference", "label"):
        if not isinstance(cell.get(key, ""), str | None):
            raise UserError(f"table '{path}': '{key}' of a cell is a text, not {cell[key]!r}")
    if cell.get(RECIPE, OURS) != OURS:
        raise UserError(f"table '{path}': 'recipe' of a cell is '{OURS}' or left out, {cell}")
    own_recipe = RECIPE in cell
    made = TableCell(overrides, cell.get("reference"), cell.get("label"), own_recipe=own_recipe)
    for key in needed:
        if not getattr(made, key):
            raise UserError(f"table '{path}': a cell without {key}=: {' '.join(made.overrides)}")
    return made


def _strings(path: Path, overrides: Any) -> tuple[str, ...]:
    if not isinstance(overrides, list) or not all(
        isinstance(override, str) for override in overrides
    ):
        raise UserError(f"table '{path}': expected a list of words, not {overrides}")
    return tuple(overrides)
