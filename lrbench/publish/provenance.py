"""A table's provenance: commands, dates, commits, machines, versions, and the cost of tuning."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lrbench.plugins import VARIABLE, load_plugins
from lrbench.publish.layout import RECORDS, SETTINGS
from lrbench.publish.notes import Notes
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.selection import TUNING, select
from lrbench.report.output.cells import MISSING, escape
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import Environment
from lrbench.report.suite.entries import PLUGINS
from lrbench.tables import SUITE, TableSpec, registered_by

VERSIONS = ("lrbench", "python", "torch", "numpy", "numba", "triton", "cuda")
COMMIT_DIGITS = 10
DAY = re.compile(r"\d{4}-\d\d-\d\d")


def provenance(spec: TableSpec, collection: Collection, notes: Notes) -> Iterator[str]:
    """Yield the markdown lines of the section."""
    yield "```sh"
    if plugins := _plugins(spec, collection):
        yield f"export {VARIABLE}={plugins}    # of the table or its runs, in their folder"
    yield from notes.commands
    yield f"lrbench sweep --table {spec.name}    # again, from scratch: make reproduce TABLE=..."
    yield f"lrbench report --runs results/{spec.name} --table {spec.name}    # the tables above"
    yield f"lrbench publish --rebuild results/{spec.name}    # this page, from its runs.csv"
    yield "```\n"
    found = list(collection.environments.values())
    for name, text in (
        ("dates", _dates(collection)),
        ("commits", commits(found)),
        ("machines", _each(map(machine, found))),
        ("versions", _each(map(versions, found))),
        ("update budget", _by_value(_cells(spec, collection), _budget)),
        ("tuning", _by_value(_cells(spec, collection), _tuning)),
    ):
        if text:
            yield f"- {name}: {escape(text)}"
    yield f"- what was typed: `command` of each cell in [{SETTINGS}]({SETTINGS})"
    yield f"- records: [{RECORDS}]({RECORDS}), from which runs.csv and settings.json are made\n"
    if notes.tuning:
        yield f"{notes.tuning}\n"


def dates(collection: Collection) -> list[str]:
    """Return the days on which cells were trained, as their environments tell it, in order."""
    texts = {str(one.get("date"))[:10] for one in collection.environments.values()}
    return sorted(text for text in texts if DAY.fullmatch(text))


def _dates(collection: Collection) -> str:
    found = dates(collection)
    return " to ".join(dict.fromkeys([found[0], found[-1]])) if found else ""


def commits(found: Sequence[Environment], noun: str = "cells") -> str:
    """Return those of the checkout, and how often it had changes that were not committed."""
    shown = _each(str(one["commit"])[:COMMIT_DIGITS] for one in found if one.get("commit"))
    dirty = sum(bool(one.get("dirty")) for one in found)
    return (
        f"{shown} (with uncommitted changes in {dirty} of {len(found)} {noun})" if dirty else shown
    )


def machine(one: Environment) -> str:
    """Return processor, cores, threads and devices of an environment."""
    parts = [
        str(one.get("cpu") or ""),
        f"{one['cores']} cores" if one.get("cores") else "",
        f"{one['threads']} threads" if one.get("threads") else "",
        *map(str, one.get("devices") or ()),
    ]
    return ", ".join(part for part in parts if part).replace(", 1 threads", ", 1 thread")


def versions(one: Environment) -> str:
    """Return lrbench's version, python's and those of the libraries that numbers depend on."""
    return ", ".join(f"{name} {one[name]}" for name in VERSIONS if one.get(name))


def _plugins(spec: TableSpec, collection: Collection) -> str:
    """Return the plug-ins of the table and its runs, by name, as a shell writes them."""
    keys = {key for settings in collection.settings.values() for key in settings}
    named = {key.removeprefix(PLUGINS) for key in keys if key.startswith(PLUGINS)}
    module = registered_by(spec.name)
    named |= {name for name in load_plugins() if f"{module}.".startswith(f"{name}.")}
    return shlex.quote(",".join(sorted(named))) if named else ""


def _each(texts: Iterable[str]) -> str:
    return "; ".join(sorted({text for text in texts if text}))


def _cells(spec: TableSpec, collection: Collection) -> list[FilledCell]:
    if spec.kind == SUITE:  # its lock tells budget and search
        return []
    return [filled for filled in select(collection, spec) if len(filled.runs)]


def _budget(filled: FilledCell) -> str:
    updates, epochs = (filled.settings.get(f"protocol.{key}") for key in ("max_steps", "epochs"))
    if updates:
        return f"{updates:,} updates"
    return f"{epochs} epochs" if epochs else MISSING


def _tuning(filled: FilledCell) -> str:
    runs = filled.settings.get(TUNING)
    return f"settings chosen from {runs} runs" if runs else "no search recorded"


def _by_value(filled_cells: Sequence[FilledCell], tell: Any) -> str:
    """Say it once where all cells have the same, else for each value which cells have it."""
    groups: dict[str, list[str]] = {}
    for filled in filled_cells:
        groups.setdefault(tell(filled), []).append(f"{filled.task} x {filled.label}")
    if len(groups) <= 1:
        return "".join(f"{value}: every cell" for value in groups)
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in groups.items())
