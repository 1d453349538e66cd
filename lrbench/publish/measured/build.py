"""Pages of tables of times: raw output into runs.csv and settings.json, these into a page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.publish.layout import NUMBERS, RECORDS, SETTINGS, Files
from lrbench.publish.measured.fan2024 import FAN2024
from lrbench.publish.measured.kind import Kind, Record
from lrbench.publish.measured.lmu import LMU
from lrbench.publish.measured.page import measured_page
from lrbench.publish.measured.rir import RIR

KINDS: dict[str, Kind] = {"fan2024_speed": FAN2024, "rir_table1": RIR, "lmu_speed": LMU}
SCHEMA = 1


def is_measured(folder: Path) -> bool:
    """Tell by its name whether a folder is that of a measured table."""
    return folder.absolute().name in KINDS


def build(folder: Path, references: Path | None = None) -> Files:
    """Return runs.csv, settings.json, README.md and figures of a measured table's folder.

    The first two are made from its records where there are any, the others from these two and
    notes.yaml alone. `references` is another folder of reference values. Raises UserError for what
    cannot be read.
    """
    kind = KINDS[folder.absolute().name]
    records = list(_records(folder))
    made = numbers(kind, folder, records) if records else {}
    content = {name: made.get(name) or _read(folder / name) for name in (NUMBERS, SETTINGS)}
    rows = list(csv.DictReader(io.StringIO(content[NUMBERS].decode(), newline="")))
    settings = _parsed(folder / SETTINGS, content[SETTINGS])
    return made | measured_page(kind, folder, rows, settings, references)


def numbers(kind: Kind, folder: Path, records: list[Record]) -> Files:
    """Return runs.csv and settings.json of raw output, from the oldest to the newest."""
    try:
        rows = kind.rows(records)
        further = kind.further(records)
        told = [_told(record) for record in records if isinstance(record.content, dict)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"'{folder / RECORDS}' holds no raw output of {kind.command}: {error!r}"
        ) from error
    stream = io.StringIO()
    writer = csv.DictWriter(stream, kind.columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    settings = {"schema": SCHEMA, "measurements": told, **further}
    return {
        NUMBERS: stream.getvalue().encode(),
        SETTINGS: (json.dumps(settings, indent=1) + "\n").encode(),
    }


def _records(folder: Path) -> Iterator[Record]:
    """The raw output, the oldest first: json, and csv as text."""
    paths = sorted((folder / RECORDS).glob("*.json")) if (folder / RECORDS).is_dir() else []
    found = [Record(path.name, _parsed(path, _read(path))) for path in paths]
    yield from sorted(found, key=lambda one: str(_environment(one.content).get("date")))
    for path in sorted((folder / RECORDS).glob("*.csv")):
        yield Record(path.name, _read(path).decode())


def _told(record: Record) -> dict[str, Any]:
    """What a file of raw output says beside its numbers."""
    content = record.content
    return {name: content[name] for name in ("what", "options", "environment")}


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
