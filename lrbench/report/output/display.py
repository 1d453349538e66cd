"""Numbers and names as a person reads them, and lines that fit the console."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
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
from lrbench.statistics import wilson


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
    low, high = wilson(round(value * n), n)
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
