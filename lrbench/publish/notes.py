"""notes.yaml: the hand-written words of a page, without its numbers.

A decimal number there would be a result that no run holds, so it is refused outside `code`.

    about: What the table is and what it says, in a paragraph or two of markdown.
    findings:                                     # in full, below the table
      - title: The answer, as a heading.
        text: The figures behind it, as markdown.
    commands: [what was typed before the sweep, such as lrbench tune]
    tuning: How the settings were searched.
    disagreements:
      - cells: ["sum x s4*", "* x liquid_s4"]     # column x row, as fnmatch reads them
        checked: What was looked at.
        believed: Why it is so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lrbench.errors import UserError, unknown

KEYS = ("about", "findings", "commands", "tuning", "disagreements")
INDEX_KEYS = ("about",)
FINDING_KEYS = ("title", "text")
ITEM_KEYS = ("cells", "checked", "believed")
NO_PROSE = ("commands", "cells")  # typed commands and patterns: nothing that a reader takes as said
DECIMAL = re.compile(r"\d*\.\d+")
CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Finding:
    """What a table says: one sentence as a heading, and the figures behind it."""

    title: str
    text: str


@dataclass(frozen=True)
class Disagreement:
    """What was checked about the cells that a pattern of `cells` names, and what we believe."""

    cells: tuple[str, ...]
    checked: str
    believed: str

    def covers(self, cell: str) -> bool:
        return any(fnmatchcase(cell, pattern) for pattern in self.cells)


@dataclass(frozen=True)
class Notes:
    """The words of one page, all of them optional."""

    about: str = ""
    findings: tuple[Finding, ...] = ()
    commands: tuple[str, ...] = ()
    tuning: str = ""
    disagreements: tuple[Disagreement, ...] = ()

    def on(self, cell: str) -> Disagreement | None:
        """Return the first note on a cell ('sum x s4')."""
        return next((note for note in self.disagreements if note.covers(cell)), None)

    def section(self) -> Iterator[str]:
        """Yield the lines of the page's section of findings, none without one."""
        if self.findings:
            yield "## What it says\n"
        yield from (f"### {one.title}\n\n{one.text}\n" for one in self.findings)


def read_notes(path: Path, keys: Sequence[str] = KEYS) -> Notes:
    """Return the notes in a file, none where there is no file; UserError for what cannot be."""
    import yaml  # type: ignore[import-untyped]

    if not path.exists():
        return Notes()
    try:
        text = path.read_text(encoding="utf-8")
        content: Any = yaml.safe_load(text)
        tree = yaml.compose(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        reason = reason or " ".join(str(error).split())
        raise UserError(f"'{path}' cannot be read: {reason}") from error
    if content is None:
        return Notes()
    if not isinstance(content, dict):
        raise UserError(f"'{path}' must hold keys, of {', '.join(keys)}")
    _check_keys(path, content, keys)
    _refuse_numbers(path, text, tree)
    return Notes(
        about=_text(path, content, "about"),
        findings=tuple(_findings(path, content)),
        commands=_list(path, content, "commands"),
        tuning=_text(path, content, "tuning"),
        disagreements=tuple(_disagreements(path, content)),
    )


def check_patterns(path: Path, notes: Notes, cells: Sequence[str]) -> None:
    """Raise UserError for a pattern that is about no cell of the table."""
    for note in notes.disagreements:
        for pattern in note.cells:
            if not any(fnmatchcase(cell, pattern) for cell in cells):
                raise unknown(f"cells in '{path}'", pattern, list(cells))


def _findings(path: Path, content: dict[str, Any]) -> Iterator[Finding]:
    for item in _items(path, content, "findings", FINDING_KEYS):
        title, text = (_text(path, item, key) for key in FINDING_KEYS)
        if not title or not text:
            raise UserError(
                f"'{path}': a finding is 'title' and 'text'; not both are there: {item}"
            )
        yield Finding(title, text)


def _disagreements(path: Path, content: dict[str, Any]) -> Iterator[Disagreement]:
    for item in _items(path, content, "disagreements", ITEM_KEYS):
        cells = _list(path, item, "cells")
        texts = [_text(path, item, key) for key in ("checked", "believed")]
        if not cells or not all(texts):
            raise UserError(
                f"'{path}': a disagreement is 'cells', 'checked' and 'believed'; not all are there:"
                f" {item}"
            )
        yield Disagreement(cells, *texts)


def _items(
    path: Path, content: dict[str, Any], key: str, keys: Sequence[str]
) -> Iterator[dict[str, Any]]:
    items = content.get(key) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UserError(f"'{path}': '{key}' must be a list of {', '.join(keys)}")
    for item in items:
        _check_keys(path, item, keys)
        yield item


def _check_keys(path: Path, content: dict[Any, Any], keys: Sequence[str]) -> None:
    for key in content:
        if key not in keys:
            raise unknown(f"key of '{path}'", str(key), list(keys))


def _text(path: Path, content: dict[str, Any], key: str) -> str:
    value = content.get(key) or ""
    if not isinstance(value, str):
        raise UserError(f"'{path}': '{key}' must be text, not {value}")
    return value.strip()


def _list(path: Path, content: dict[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key) or []
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise UserError(f"'{path}': '{key}' must be a list of texts, not {value}")
    return tuple(value)


def _refuse_numbers(path: Path, text: str, tree: Any) -> None:
    for start, end in _prose(tree):
        said = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text[start:end])
        for found in DECIMAL.finditer(said):
            line = text.count("\n", 0, start + found.start()) + 1
            raise UserError(
                f"'{path}', line {line}: the number {found[0]} stands in a note\n"
                "a page takes its numbers from runs.csv alone; say it in words, or put what is no"
                " result (a setting, a section) between `backticks`"
            )


def _prose(node: Any) -> Iterator[tuple[int, int]]:
    """Yield where the texts of a YAML tree begin and end, but for commands and patterns."""
    if isinstance(node.value, str):
        yield node.start_mark.index, node.end_mark.index
        return
    for child in node.value:
        if not isinstance(child, tuple):
            yield from _prose(child)
        elif child[0].value not in NO_PROSE:
            yield from _prose(child[1])
