"""results/README.md: a line for each published table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lrbench.publish.layout import (
    NOTES,
    PAGE,
    Files,
    is_measured,
    spec_of,
    table_folders,
)
from lrbench.publish.notes import INDEX_KEYS, read_notes
from lrbench.publish.provenance import dates
from lrbench.report.grids.selection import row_labels
from lrbench.report.output.cells import MISSING, escape
from lrbench.report.output.display import plural
from lrbench.report.runs.archive import read_archive
from lrbench.report.suite.entries import suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.tables import SUITE, WALKS

TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
HEAD = "<!-- made by lrbench publish from the folders below and notes.yaml; edit those -->"
COLUMNS = ("table", "rows x columns", "runs", "newest")


def index(results: Path) -> Files:
    """Return the index of a folder of published tables."""
    notes = read_notes(results / NOTES, INDEX_KEYS)
    rows = [_row(folder) for folder in table_folders(results)]
    lines = [HEAD, "# Published results", ""]
    if notes.about:
        lines += [notes.about, ""]
    lines += [_grid(rows)]
    return {PAGE: "\n".join(lines).encode()}


def _row(folder: Path) -> tuple[str, ...]:
    """The folder's name, its title as markdown, and plain texts."""
    if is_measured(folder):
        return _measured(folder)
    spec = spec_of(folder)
    collection = read_archive(folder)
    rows = len(set(row_labels(spec.cells)))
    columns = len(spec.columns) or len({cell.task for cell in spec.cells})
    size = f"{rows} x {columns}"
    runs = plural(len(collection.runs), "run")
    if spec.kind == SUITE:
        suite = suite_of(collection, spec, read_lock(spec.name), spec.rule)
        size = f"{len(suite.entries)} x {len({name for e in suite.entries for name in e.sizes})}"
        ended = sum(len(entry.every_run) for entry in suite.entries)
        runs = f"{plural(ended, 'run')}, and {len(suite.tried):,} of the search"
    elif spec.kind == WALKS:  # a row is a station, and its columns are how it is read
        size = plural(len(spec.walks), "walk")
    under_way = len(collection.under_way)
    count = f"{runs}, {under_way} unfinished" if under_way else runs
    newest = max(dates(collection), default=MISSING)
    return folder.name, escape(spec.title), size, count, newest


def _measured(folder: Path) -> tuple[str, ...]:
    """A table of times: its page says what it is, and the newest date on it is its own."""
    text = (folder / PAGE).read_text(encoding="utf-8") if (folder / PAGE).exists() else ""
    title = TITLE.search(text)
    newest = max(DATE.findall(text), default=MISSING)
    return folder.name, title[1] if title else folder.name, "measured", MISSING, newest


def _grid(rows: Sequence[tuple[str, ...]]) -> str:
    """A line a table; plain lines, because a cell that is a link must not be escaped."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for name, title, *rest in rows:
        lines.append(f"| [{title}]({name}/{PAGE}) | {' | '.join(map(escape, rest))} |")
    return "\n".join(lines) + "\n"
