"""`lrbench tasks`, `lrbench models` and `lrbench tables`: what there is, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lrbench.registry import Entry, Registry

TASKS_HELP = (
    "List the tasks: name, what is asked, source.\n\n"
    "A task from a plugin names its module. See strings of one with: lrbench show task=sum"
)
MODELS_HELP = (
    "List the models: name, what it is, source.\n\n"
    "A model from a plugin names its module. Train one with: lrbench train model=blockdiag"
)
TABLES_HELP = (
    "List the tables: name, title, source, number of cells.\n\n"
    "Train what is missing of one with: lrbench sweep --table fan2024_table2"
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the commands."""
    app.command(help=TASKS_HELP, rich_help_panel=panel)(tasks)
    app.command(help=MODELS_HELP, rich_help_panel=panel)(models)
    app.command(help=TABLES_HELP, rich_help_panel=panel)(tables)


def tasks() -> None:
    """List the tasks."""
    from lrbench.registry import TASKS

    _print(TASKS)


def models() -> None:
    """List the models."""
    from lrbench.registry import ENCODERS, MIXERS

    _print(MIXERS, ENCODERS)


def tables() -> None:
    """List the tables."""
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.report.output.display import plural, say
    from lrbench.tables import load_table, table_names

    load_plugins()
    specs = [load_table(name) for name in table_names()]
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        parts = [spec.title, *([f"({spec.source})"] if spec.source else [])]
        parts.append(f"[{plural(len(spec.cells), 'cell')}]")
        say(results(), f"{spec.name:<{width}}  {' '.join(parts)}")


def lines(entries: list[Entry]) -> Iterator[str]:
    """Yield a line for each entry, the names in one column."""
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        origin = "" if entry.builtin else f" [plugin {entry.module}]"
        text = " ".join(entry.source.split()) or "(its class has no docstring)"
        yield f"{entry.name:<{width}}  {text}{origin}"


def _print(*registries: Registry) -> None:
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.report.output.display import say

    load_plugins()
    entries = [registry.get(name) for registry in registries for name in registry.names()]
    for line in lines(sorted(entries, key=lambda entry: entry.name)):
        say(results(), line)
