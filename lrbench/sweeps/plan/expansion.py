"""Expansion of a table or a typed product into cells, each a list of overrides."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lrbench.checks import nearest, shown
from lrbench.errors import UserError
from lrbench.records import IRRELEVANT
from lrbench.tables import SUITE, TableCell, TableSpec

Overrides = tuple[str, ...]

SELECTING = ("task", "model")  # typed beside a table, these choose among its cells


def expand(arguments: Sequence[str]) -> list[Overrides]:
    """Return the product of the words that name several values: task=sum,even_pair seed=range(3).

    A key typed twice counts once, with its last values. The last key varies fastest. What cannot
    be read is left as it is, for `cli/words.py` to complain about.
    """
    by_key = {_key(argument): _alternatives(argument) for argument in arguments}
    return [tuple(choice) for choice in itertools.product(*by_key.values())]


def table_cells(table: TableSpec, arguments: Sequence[str]) -> dict[Overrides, str]:
    """Return a table's cells, overrides -> label ("" for none), with what was typed in every cell.

    task= and model= choose among the cells instead. Cells that what was typed makes equal are one,
    by the label of the one that this changes least; by none if such cells disagree. A typed group
    (optim=adam) takes the place of a cell's `optim.name`. Raises UserError if no cell is left.
    """
    if not table.cells:
        raise UserError(
            f"table '{table.name}' has no cell: none of its models is one of lrbench's yet\n"
            f"its printed numbers: lrbench report --table {table.name}"
        )
    common = [argument for argument in arguments if _key(argument) not in SELECTING]
    replaced = {f"{_key(argument)}.name" for argument in common}
    found: dict[frozenset[str], list[TableCell]] = {}
    first: dict[frozenset[str], Overrides] = {}
    for cell in chosen_cells(table, arguments).cells:
        own = [word for word in _settled(cell.overrides) if _key(word) not in replaced]
        for overrides in expand((*own, *common)):
            words = frozenset(overrides)  # in any order
            found.setdefault(words, []).append(cell)
            first.setdefault(words, overrides)
    return {first[words]: _label(words, cells) for words, cells in found.items()}


def _label(words: frozenset[str], cells: Sequence[TableCell]) -> str:
    def change(cell: TableCell) -> tuple[int, int]:
        own = {*_settled(cell.overrides)}
        return len(own - words), len(words - own)

    least = min(map(change, cells))
    labels = {cell.label or "" for cell in cells if change(cell) == least}
    return labels.pop() if len(labels) == 1 else ""


def of_table(table: TableSpec, cells: Iterable[Overrides]) -> bool:
    """Tell whether the table's report has a place for some of these cells.

    It has none where what was typed changed a setting that each cell of the table names.
    """
    named = [
        {word for word in _settled(cell.overrides) if _key(word) not in IRRELEVANT}
        for cell in table.cells
    ]
    return table.kind == SUITE or any(words <= {*cell} for cell in cells for words in named)


def chosen_cells(table: TableSpec, arguments: Sequence[str]) -> TableSpec:
    """Return the table with the cells that task= and model= name; UserError if there is none.

    A suite has a row for any model, listed or not.
    """
    typed = [argument for argument in arguments if _key(argument) in SELECTING]
    selected = {_key(argument): _values(argument) for argument in typed}
    if table.kind == SUITE:
        new = [name for name in selected.get("model", []) if name not in table.rows]
        added = (cell for name in new for cell in table.with_model(name))
        table = replace(table, cells=(*table.cells, *added))
    cells = [
        cell
        for cell in table.cells
        if all(getattr(cell, key) in values for key, values in selected.items())
    ]
    there = {key: {getattr(cell, key) for cell in table.cells} for key in SELECTING}
    if typed and (not cells or any(set(v) - there[key] for key, v in selected.items())):
        known = "\n".join(
            f"{key}: {', '.join(dict.fromkeys(getattr(cell, key) for cell in table.cells))}"
            for key in SELECTING
        )
        chosen = shown(" ".join(typed))
        strange = ((name, key) for key, names in selected.items() for name in names)
        hints = [nearest(n, sorted(there[key])) for n, key in strange if n not in there[key]]
        near = f".{hints[0]}" if len(hints) == 1 and hints[0] else ""
        raise UserError(f"table '{table.name}' has no cell with {chosen}{near}\nit has {known}")
    return replace(table, cells=tuple(cells))


def distinct_names(cells: Sequence[Overrides], names: Sequence[str]) -> list[str]:
    """Return each cell's name with the words that set it apart from others of that name."""
    alike: dict[str, list[Overrides]] = {}
    for cell, name in zip(cells, names, strict=True):
        alike.setdefault(name, []).append(cell)
    keys = {name: varying(members) for name, members in alike.items()}
    distinct = []
    for cell, name in zip(cells, names, strict=True):
        given = dict(argument.partition("=")[::2] for argument in cell)
        distinct.append(" · ".join([name, *(f"{k}={given[k]}" for k in keys[name] if k in given)]))
    return distinct


def varying(cells: Iterable[Overrides]) -> list[str]:
    """Return the keys, other than task, model, seed and trials, that tell these cells apart."""
    listed = [dict(argument.partition("=")[::2] for argument in cell) for cell in cells]
    keys = dict.fromkeys(key for cell in listed for key in cell)
    ignored = (*SELECTING, "seed", "trials", "force")
    return [
        key for key in keys if key not in ignored and len({cell.get(key) for cell in listed}) > 1
    ]


def _settled(arguments: Sequence[str]) -> list[str]:
    """One word a key, the last."""
    return list({_key(argument): argument for argument in arguments}.values())


def _key(argument: str) -> str:
    return argument.lstrip("+").partition("=")[0]


def _values(argument: str) -> list[str]:
    return [each.partition("=")[2] for each in _alternatives(argument)]


def _alternatives(argument: str) -> list[str]:
    """The words that a word with several values stands for; itself if it has only one."""
    override = _parsed(argument)
    if override is None or not override.is_sweep_override():
        return [argument]
    name = argument.partition("=")[0]
    if override.is_interval_sweep():
        raise UserError(
            f"'{shown(argument)}' is an interval, not a list of values\n"
            f"write {name}=V1,V2 or {name}=range(START,STOP)"
        )
    if not override.is_choice_sweep() and not override.is_range_sweep():
        return [argument]
    return [f"{name}={value}" for value in _listed(override)]


def _listed(override: Any) -> list[str]:
    from hydra.core.override_parser.types import Glob

    value = override.value()
    if isinstance(value, Glob):
        return _matching(override.key_or_group, value)
    return list(override.sweep_string_iterator())


def _matching(group: str, pattern: Any) -> list[str]:
    """Return the names that a pattern has: of models the mixers, encoders where it has none."""
    from lrbench.registry import ENCODERS, MIXERS, TASKS

    registries = {"task": (TASKS,), "model": (MIXERS, ENCODERS)}
    if group not in registries:
        raise UserError(f"glob() goes with {' and '.join(registries)}, not with {shown(group)}")
    found = (list(pattern.filter(known.names())) for known in registries[group])
    names = next(filter(None, found), [])
    if not names:
        raise UserError(f"no {group} matches {pattern.include}")
    return names


def _parsed(argument: str) -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(argument)
    except (HydraException, ValueError, RecursionError):
        return None
