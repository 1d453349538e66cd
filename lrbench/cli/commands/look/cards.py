"""Cards: all that is known of one model, task, table or protocol, for a person or as JSON.

A card imports what it is about and nothing of its kind beside it. Its words are those of the
source: the docstring of a model's module, which has its equations, and those of settings.
"""

from __future__ import annotations

import fnmatch
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lrbench.cli.completion import typed
from lrbench.errors import unknown
from lrbench.registry import (
    BACKBONES,
    DEFAULT_BACKBONE,
    DEFAULT_PROTOCOL,
    ENCODERS,
    FOREIGN,
    MIXERS,
    OWN,
    PROTOCOLS,
    TASKS,
    Entry,
    source_module,
)
from lrbench.words import SettingCard, settings

if TYPE_CHECKING:
    from rich.console import Console

    from lrbench.tables import TableSpec

INDENT = " " * 4


@dataclass(frozen=True)
class Card:
    """What it is, from where, its text, its settings, what it works with, and commands to try."""

    kind: str
    name: str
    source: str
    text: str
    works_with: list[str]
    examples: list[str]
    settings: list[SettingCard] = field(default_factory=list)

    def content(self) -> dict[str, Any]:
        """Return it as JSON has it (docs/json.md)."""
        shown = {key: getattr(self, key) for key in ("kind", "name", "source", "text")}
        rows = [setting_content(one) for one in self.settings]
        return {
            **shown,
            "works_with": self.works_with,
            "examples": self.examples,
            "settings": rows,
        }


def setting_content(one: SettingCard) -> dict[str, Any]:
    """Return a setting as JSON has it: limits that there are none of are null."""
    keys = "least", "most", "above", "below", "values"
    limits = {key: getattr(one.limits, key) for key in keys}
    return {"key": one.key, "meaning": one.meaning, "default": one.default, **limits}


def model_card(name: str) -> Card:
    """Return the card of a mixer or an encoder; UserError for another name."""
    from lrbench.schema import model_node

    if name not in MIXERS and name not in ENCODERS:
        raise unknown("model", name, [*MIXERS, *ENCODERS], fix=OWN)
    mixer, typed_name = name in MIXERS, name
    if name == FOREIGN:  # by itself it is no model
        typed_name = f"{name} model.mixer.target=my_layers.MyLayer"
    entry = (MIXERS if mixer else ENCODERS).get(name)
    if mixer:
        usual = entry.backbone.get("name", DEFAULT_BACKBONE)
        others = ", ".join(other for other in BACKBONES if other != usual)
        works = [
            f"stack: {usual}; also, by model.backbone.name: {others}",
            "tasks with answers at positions of a string, and series of numbers",
            *([f"corpora: model=pooled model.encoder.mixer={name}"] if name != FOREIGN else []),
        ]
        example = f"lrbench train task=sum model={typed_name}"
    else:
        works = ["corpora, one answer a string: listops, logic and others, by protocol=rir2023"]
        example = f"lrbench train task=listops protocol=rir2023 model={name}"
    return Card(
        kind="mixer" if mixer else "encoder",
        name=name,
        source=_source(entry),
        text=_text(source_module(entry).__doc__, entry),
        works_with=works,
        examples=[example, f"lrbench check model={typed_name}"],
        settings=settings(model_node(name), "model."),
    )


def task_card(name: str) -> Card:
    """Return the card of a task; UserError for another name."""
    from lrbench.schema import task_node

    entry = TASKS.get(name)
    works, model = trained_by(entry)
    return Card(
        kind="task",
        name=name,
        source=_source(entry),
        text=_text(entry.cls.__doc__, entry),
        works_with=[works],
        examples=[f"lrbench show task={name}", f"lrbench train task={name} {model}"],
        settings=settings(task_node(name), "task."),
    )


def trained_by(entry: Entry) -> tuple[str, str]:
    """Return what kind of task it is and what trains on it, in words, and a model as typed."""
    if getattr(entry.cls, "one_answer", False):
        return (
            "corpora, one answer a string: encoders, and mixers by model=pooled; protocol=rir2023",
            "protocol=rir2023 model=bbt_grc",
        )
    if getattr(entry.cls, "features", 0):
        return "series of numbers: mixers; protocols of lengths", "model=lmu_parallel"
    return "strings, answers at positions: mixers; protocols of lengths", "model=blockdiag"


def protocol_card(name: str) -> Card:
    """Return the card of a protocol; UserError for another name."""
    from lrbench.protocols.base import declared

    entry = PROTOCOLS.get(name)
    protocol = declared(name)
    rules = [f"checkpoint {rule}: {legend}" for rule, legend in protocol.rules.items()]
    what, tried = "tasks of strings and series", "task=sum model=blockdiag"
    if protocol.by_split:
        what, tried = "tasks with splits of a corpus", "task=listops model=bbt_grc"
    elif own := [task for one in protocol.tasks for task in fnmatch.filter(TASKS.names(), one)]:
        easiest = next((task for task in own if "parity" in task), own[0])
        what, tried = f"tasks: {', '.join(protocol.tasks)}", f"task={easiest} model=blockdiag"
    return Card(
        kind="protocol",
        name=name,
        source=_source(entry),
        text=_text(source_module(entry).__doc__, entry),
        works_with=[what, *rules],
        examples=[f"lrbench train protocol={name} {tried}"],
        settings=settings(entry.config, "protocol."),
    )


def table_card(spec: TableSpec) -> Card:
    """Return the card of a table."""
    tasks = dict.fromkeys(cell.task for cell in spec.cells)
    lines = [
        f"rows: {', '.join(spec.rows)}",
        f"columns: {', '.join(spec.columns or tasks)}",
        f"numbers: those of checkpoint {spec.rule}",
        f"{len(spec.cells)} cells, such as: {' '.join(spec.cells[0].overrides)}",
    ]
    sweep = f"lrbench sweep --table {spec.name}"
    examples = [f"{sweep} --dry-run", sweep, f"lrbench report --table {spec.name}"]
    return Card(
        kind="table",
        name=spec.name,
        source=spec.source,
        text="\n".join([spec.title, *lines]),
        works_with=[f"protocol {spec.protocol or DEFAULT_PROTOCOL}", f"kind {spec.kind}"],
        examples=examples,
    )


def print_card(card: Card, console: Console) -> None:
    """Print a card for a person, in lines of at most the console's width where they may break."""
    from lrbench.report.output.display import say

    say(console, f"{card.kind} {card.name}", "bold")
    if card.source and card.source not in card.text:
        say(console, card.source)
    console.print()
    for line in card.text.splitlines():
        say(console, line)
    if card.settings:
        _heading(console, "Settings")
        for one in card.settings:
            allowed = f"    {one.allowed}" if one.allowed else ""
            say(console, f"{one.key}={typed(one.default)}{allowed}")
            for line in _wrapped(one.meaning, console.width):
                say(console, line)
    _heading(console, "Works with")
    for text in card.works_with:
        for line in _wrapped(text, console.width):
            say(console, line)
    _heading(console, "For example")
    for example in card.examples:
        say(console, INDENT + example)


def _heading(console: Console, text: str) -> None:
    from lrbench.report.output.display import say

    console.print()
    say(console, text, "bold")


def _wrapped(text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False
    )


def _source(entry: Entry) -> str:
    origin = "" if entry.builtin else f" [plugin {entry.module}]"
    return " ".join(entry.source.split()) + origin


def _text(docstring: str | None, entry: Entry) -> str:
    """Return a docstring, of the module or else of the class, its margin taken off."""
    return inspect.cleandoc(docstring or entry.cls.__doc__ or "(it has no docstring)").strip()
