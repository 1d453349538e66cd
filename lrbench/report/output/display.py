"""Numbers and names as a person reads them, and lines that fit the console."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from lrbench.plugins import named_before
from lrbench.records import Result
from lrbench.registry import FOREIGN
from lrbench.report.output.cells import Table as Grid
from lrbench.report.output.cells import duration
from lrbench.report.paper.recipe import exact_start
from lrbench.statistics import correct_of, wilson

LARGE = 64  # numbers of a state for each unit of width and layer: more are worth a word


def count(number: int) -> str:
    """Return a count in short: 812, 51k, 1.2M."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"


def plural(number: int, noun: str) -> str:
    """Return '1 layer', '3 layers'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def interval(value: float, n: int) -> str:
    """Return the 95 % Wilson interval of an accuracy measured on n strings."""
    low, high = wilson(correct_of(value, n), n)
    return f"[{low:.4f}, {high:.4f}]"


def wrap(parts: Sequence[str], separator: str, width: int) -> list[str]:
    """Join parts into lines of at most `width`, broken only between parts."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{separator}{part}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def say(console: Console, text: str, style: str = "", label: str = "") -> None:
    """Print one line as it is: no markup, no cutting, no breaking (a command stays whole)."""
    line = Text.assemble((label, "dim"), (plain(console, text), style))
    console.print(line, highlight=False, soft_wrap=True)


def say_wrapped(console: Console, text: str, style: str = "") -> None:
    """Print a sentence in lines that fit the console, words whole."""
    for line in textwrap.wrap(text, console.width, break_long_words=False):
        say(console, line, style)


def plain(console: Console, text: str) -> str:
    """Return `text` in characters the console's encoding has."""
    for fancy, simple in (("·", "-"), ("±", "+-"), ("×", "x")):
        if console.options.ascii_only:
            text = text.replace(fancy, simple)
    encoding = console.encoding
    return text.encode(encoding, "replace").decode(encoding)


def again(result: Result, folder: Path, options: str) -> str:
    """Return the command that evaluates a run further, with the plug-ins that it needs.

    They are those that are named now: `evaluate` imports none because a run's folder names it.
    """
    named = None
    if result["model"] == FOREIGN:  # imported by its target, which named it
        named = ",".join(sorted(result["versions"].get("plugins", {})))
    return named_before(f"lrbench evaluate {shlex.quote(str(folder))}{options}", named)


def group_starts(table: Grid) -> list[bool]:
    """Tell the rows above which a group begins or ends: several rows with the same first cell."""
    names = [row[0].text for row in table.rows]
    same = [False, *(above == name for above, name in pairwise(names)), False]
    grouped = [same[row] or same[row + 1] for row in range(len(names))]
    return [
        row > 0 and not same[row] and (grouped[row - 1] or grouped[row])
        for row in range(len(names))
    ]


def columns_table(console: Console, columns: dict[str, list[str]], bold_row: int = -1) -> None:
    """Print columns (title -> one text a row), with narrower gaps where the width asks for it.

    No number is broken in two: where the width is too small for all, the lines are longer.
    """
    widths = [max([len(title), *map(len, texts)]) for title, texts in columns.items()]
    roomy = sum(widths) + 2 * (len(widths) - 1) <= console.width
    table = Table(box=None, pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0))
    for title, texts in columns.items():  # an untitled column holds words, the others numbers
        side: JustifyMethod = "right" if title else "left"
        whole = max((len(word) for text in texts for word in text.split()), default=0)
        least = whole if title else None
        table.add_column(title, justify=side, overflow="fold", header_style="dim", min_width=least)
    for index, row in enumerate(zip(*columns.values(), strict=True)):
        table.add_row(*map(Text, row), style="bold" if index == bold_row else None)
    console.print(table, highlight=False, crop=False)


def number(row: Mapping[str, Any], name: str, form: str) -> str:
    """Return row[name] in the given format, '-' where it is missing."""
    value = row.get(name)
    return "-" if value is None else format(value, form)


def header(result: Result) -> list[str]:
    """The parts of the first lines: what was trained, how, on what."""
    what = [part for part in (result["model"], *_size(result)) if part]
    where = [result.get("device"), _counted(result, "threads", "thread")]
    parts = [
        result.get("task_title") or result["task"],
        ", ".join(what),
        result["protocol"],
        f"seed {result['seed']}",
        ", ".join(part for part in where if part),
        plural(result["steps"], "update")
        + (f" in {duration(result['train_seconds'])}" if result.get("train_seconds") else ""),
    ]
    return [part for part in parts if part]


def _size(result: Result) -> Iterable[str]:
    model = result["config"].get("model") or {}
    mixer = model.get("mixer") or {}
    yield str(mixer.get("target", "")) if result["model"] == FOREIGN else ""
    yield plural(model["layers"], "layer") if model.get("layers") else ""
    size, blocks = mixer.get("block_size"), mixer.get("blocks")
    if size and not blocks and model.get("width"):
        blocks = model["width"] // size
    yield f"{blocks} blocks of {size}" if size and blocks else ""
    yield f"{count(result['parameters'])} parameters" if result.get("parameters") else ""
    yield "started from a solution built by hand" if exact_start(result) else ""
    kept = result.get("state_size")
    yield _state(kept, model) if kept else ""


def _state(size: int, model: Mapping[str, Any]) -> str:
    """The numbers of a state; a large one, as layers of libraries have, beside its width."""
    kept, units = f"state {size:,} floats", (model.get("width") or 0) * (model.get("layers") or 0)
    if not units or size <= LARGE * units:
        return kept
    return f"{kept}, a large one: {size / units:,.0f} a unit of width"


def _counted(result: Result, name: str, noun: str) -> str:
    found: Mapping[str, Any] = result
    return plural(found[name], noun) if found.get(name) else ""
