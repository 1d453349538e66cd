"""A measured table's folder: raw output into runs.csv and settings.json, these into a page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.fan2024 import FAN2024
from benchmarks.pages.figure import Plot, svg
from benchmarks.pages.lmu import LMU
from benchmarks.pages.rir import RIR
from benchmarks.pages.table import (
    FACTOR,
    Compared,
    MeasuredTable,
    RawOutput,
    Row,
    Settings,
)
from lrbench.errors import UserError, unknown
from lrbench.publish.changes import Changes
from lrbench.publish.index import index
from lrbench.publish.layout import (
    FIGURES,
    NOTES,
    NUMBERS,
    PAGE,
    RECORDS,
    SETTINGS,
    Files,
    is_measured,
    is_table,
    table_folders,
)
from lrbench.publish.notes import Disagreement, Notes, check_patterns, read_notes
from lrbench.publish.provenance import commits, machine, versions
from lrbench.report.output.cells import Table, escape, to_markdown

TABLES: dict[str, MeasuredTable] = {"fan2024_speed": FAN2024, "rir_table1": RIR, "lmu_speed": LMU}
SCHEMA = 1
HEAD = f"<!-- made by benchmarks.pages from {NUMBERS}, {SETTINGS} and {NOTES}; edit those -->"
NOT_YET = "Not looked into yet."


def rebuild(place: Path, check: bool = False) -> Changes:
    """Make a measured table's folder again, or every one below `place`, and the index.

    As `lrbench.publish.rebuild.rebuild` does it for tables of runs: returned are files that belong
    to no page and, where it is only a `check`, which writes nothing, every difference.
    """
    results = place.absolute().parent if is_table(place) else place
    folders = [place] if is_table(place) else list(filter(is_measured, table_folders(place)))
    changes = Changes()
    for folder in folders:
        files = build(folder)
        changes.add_page(folder, files, lambda name: name.startswith(f"{RECORDS}/"))
    if not check:
        changes.apply()
        changes.add(results, index(results))
        changes.apply()
    return changes


def build(folder: Path, references: Path | None = None) -> Files:
    """Return runs.csv, settings.json, README.md and figures of a measured table's folder.

    The first two are made from its records where there are any, the others from these two and
    notes.yaml alone. `references` is another folder of reference values. Raises UserError for what
    cannot be read.
    """
    name = folder.absolute().name
    if name not in TABLES:
        raise unknown("measured table", name, TABLES)
    table = TABLES[name]
    raw = list(_raw_outputs(folder))
    made = numbers(table, folder, raw) if raw else {}
    content = {name: made.get(name) or _read(folder / name) for name in (NUMBERS, SETTINGS)}
    rows = list(csv.DictReader(io.StringIO(content[NUMBERS].decode(), newline="")))
    settings = _parsed(folder / SETTINGS, content[SETTINGS])
    return made | page(table, folder, rows, settings, references)


def numbers(table: MeasuredTable, folder: Path, raw: list[RawOutput]) -> Files:
    """Return runs.csv and settings.json of raw output, from the oldest to the newest."""
    try:
        rows = table.rows(raw)
        further = table.further(raw)
        measurements = [_circumstances(one) for one in raw if isinstance(one.content, dict)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"'{folder / RECORDS}' holds no raw output of {table.command}: {error!r}"
        ) from error
    stream = io.StringIO()
    writer = csv.DictWriter(stream, table.columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    settings = {"schema": SCHEMA, "measurements": measurements, **further}
    return {
        NUMBERS: stream.getvalue().encode(),
        SETTINGS: (json.dumps(settings, indent=1) + "\n").encode(),
    }


def page(
    table: MeasuredTable,
    folder: Path,
    rows: Sequence[Row],
    settings: Settings,
    references: Path | None,
) -> Files:
    """Return README.md and figures/*.svg; UserError for notes that may not stand there."""
    notes = read_notes(folder / NOTES)
    compared = table.compared(rows, settings, references)
    check_patterns(folder / NOTES, notes, [one.cell for one in compared])
    plots = table.plots(rows, settings)
    tables = table.tables(rows, settings, references)
    name = folder.absolute().name
    text = "\n".join(_lines(table, name, tables, plots, compared, notes, settings))
    return {PAGE: text.encode(), **{f"{FIGURES}/{one.name}.svg": svg(one) for one in plots}}


def _raw_outputs(folder: Path) -> Iterator[RawOutput]:
    """The raw output, the oldest first: json, and csv as text."""
    paths = sorted((folder / RECORDS).glob("*.json")) if (folder / RECORDS).is_dir() else []
    found = [RawOutput(path.name, _parsed(path, _read(path))) for path in paths]
    yield from sorted(found, key=lambda one: str(_environment(one.content).get("date")))
    for path in sorted((folder / RECORDS).glob("*.csv")):
        yield RawOutput(path.name, _read(path).decode())


def _circumstances(raw: RawOutput) -> dict[str, Any]:
    """What a file of raw output says beside its numbers."""
    return {name: raw.content[name] for name in ("what", "options", "environment")}


def _environment(content: Any) -> dict[str, Any]:
    found = content.get("environment") if isinstance(content, dict) else None
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"'{path}' cannot be read: {(error.strerror or '').lower()}") from error


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise UserError(f"'{path}' is not json: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"'{path}' holds no json object")
    return found


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _lines(
    table: MeasuredTable,
    name: str,
    tables: Sequence[Table],
    plots: Sequence[Plot],
    compared: Sequence[Compared],
    notes: Notes,
    settings: Settings,
) -> Iterator[str]:
    yield from (HEAD, f"# {escape(table.title)}", "")
    yield f"Source: {table.source}. Every number of ours below is from [{NUMBERS}]({NUMBERS})."
    yield ""
    yield f"{table.about}\n"
    if notes.about:
        yield f"{notes.about}\n"
    yield from map(to_markdown, tables)
    for plot in plots:
        yield f"![{escape(plot.caption)}]({FIGURES}/{plot.name}.svg)\n"
    yield from notes.section()
    yield "## Where our ratios and the paper's differ\n"
    yield from _differences(compared, notes)
    yield "## How it was made\n"
    yield from _provenance(table, name, notes, settings)


def _differences(compared: Sequence[Compared], notes: Notes) -> Iterator[str]:
    """An item for each ratio that differs, and below those of one note what it says."""
    groups: dict[Disagreement | None, list[Compared]] = {}
    for one in compared:
        if one.differs:
            groups.setdefault(notes.on(one.cell), []).append(one)
    if not groups:
        yield f"Nowhere by more than a factor of {FACTOR:g}.\n"
        return
    many = sum(map(len, groups.values()))
    yield f"By more than a factor of {FACTOR:g}, {many} of {len(compared)}:\n"
    for note, group in sorted(groups.items(), key=lambda item: item[0] is None):
        for one in group:
            yield f"- **{escape(one.cell)}**: ours {one.ours:.3g}, paper {one.paper:.3g}"
        text = f"Checked: {note.checked} Believed: {note.believed}" if note else NOT_YET
        yield f"\n  {' '.join(text.split())}\n"


def _provenance(table: MeasuredTable, name: str, notes: Notes, settings: Settings) -> Iterator[str]:
    found: list[dict[str, Any]] = [one["environment"] for one in settings["measurements"]]
    yield "```sh"
    yield from notes.commands
    yield from dict.fromkeys(_command(table, one, name) for one in found)
    yield f"python -m benchmarks.pages results/{name}    # this page, from its {NUMBERS}"
    yield "```\n"
    days = sorted({str(one.get("date"))[:10] for one in found})
    for title, texts in (
        ("dates", days),
        ("commits", [commits(found, "files")]),
        ("machines", sorted(set(map(machine, found)))),
        ("versions", sorted(set(map(versions, found)))),
    ):
        yield f"- {title}: {escape('; '.join(texts))}"
    yield f"- records: [{RECORDS}]({RECORDS}), from which {NUMBERS} and {SETTINGS} are made\n"


def _command(table: MeasuredTable, environment: dict[str, Any], name: str) -> str:
    """The command of a record, with its output where it is kept here."""
    words = list(environment.get("command") or [])[table.program_words :]
    switch = "LRBENCH_COMPILED=0 " if environment.get("compiled") is False else ""
    if "--output" in words:
        place = words.index("--output") + 1
        words[place:] = [f"results/{name}/{RECORDS}/{Path(words[place]).name}", *words[place + 1 :]]
    return switch + " ".join([table.command, *words])
