"""Making a table's page from what lies in its folder, and telling what differs from it."""

from __future__ import annotations

import re
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.changes import Changes
from lrbench.publish.layout import (
    FIGURES,
    NOTES,
    NUMBERS,
    RECORDS,
    SETTINGS,
    Files,
    measured_builder,
)
from lrbench.publish.page import Page, page
from lrbench.report.archive import archive
from lrbench.report.collect import collect

# records/<task>/<model>/<protocol>/<fingerprint>/ and the files of it and of its runs
RECORD = re.compile(
    rf"{RECORDS}/[^/]+/[^/]+/[^/]+/[0-9a-f]+/(?:config\.json|environment\.json"
    r"|s\d+/(?:result\.json|failure\.json|metrics\.jsonl|evaluations/[^/]+\.json))"
)


def numbers(folder: Path) -> Files:
    """Return runs.csv and settings.json as the records of a table make them; nothing without any.

    Raises UserError for a record that cannot be used.
    """
    records = folder / RECORDS
    if not records.is_dir():
        return {}
    collection = collect(records)
    for path, reason in collection.problems:
        raise UserError(f"a published run cannot be used: {path}: {reason}")
    return archive(collection, records)


def page_changes(folder: Path, changes: Changes) -> None:
    """Add to `changes` those of README.md and figures, and what else does not belong there."""
    build = measured_builder(folder)
    made = Page(build(folder)) if build else page(folder)
    changes.add(folder, made.files)
    changes.warnings += made.warnings
    known = {*made.files, NUMBERS, SETTINGS, NOTES}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name in known or RECORD.fullmatch(name) or (build and name.startswith(f"{RECORDS}/")):
            continue
        generated = name.startswith(f"{FIGURES}/") and path.suffix == ".svg"
        (changes.removed if generated else changes.strangers).append(path)


def number_changes(folder: Path, changes: Changes) -> None:
    """Add to `changes` those of runs.csv and settings.json."""
    if not measured_builder(folder):
        changes.add(folder, numbers(folder))
