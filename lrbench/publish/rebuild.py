"""The rebuild of published tables from the files in their folders, and of the index above them.

Numbers are made of records, pages of numbers and notes.
"""

from __future__ import annotations

import re
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.changes import Changes
from lrbench.publish.front_page import with_tables
from lrbench.publish.index import index
from lrbench.publish.layout import CERTIFICATES, RECORDS, is_measured, is_table, table_folders
from lrbench.publish.page import page
from lrbench.report.runs.archive import archive
from lrbench.report.runs.collect import collect
from lrbench.report.runs.looks import METRICS_FILE

# records/<task>/<model>/<protocol>/<fingerprint>/ and the files of it and of its runs
RECORD = re.compile(
    rf"{RECORDS}/[^/]+/[^/]+/[^/]+/[0-9a-f]+/(?:config\.json|environment\.json"
    r"|s\d+/(?:result\.json|failure\.json|metrics\.jsonl|evaluations/[^/]+\.json"
    r"|certificates/[^/]+\.(?:json|npz)))"
)


def add_numbers(folder: Path, changes: Changes) -> None:
    """Add to `changes` those of runs.csv and what belongs to it, as the records of a table make it.

    Nothing without any. Raises UserError for a record that cannot be used.
    """
    records = folder / RECORDS
    if not records.is_dir():
        return
    collection = collect(records)
    frame = collection.frame
    unlogged = set(frame["folder"][frame["kind"] == "look"]) - set(collection.looks)
    changes.warnings += [
        f"{records / place} has no {METRICS_FILE}: other looks than the believed are in no row"
        for place in sorted(unlogged)
    ]
    made = archive(collection, records)  # it reads all looks, which may be damaged
    for path, reason in collection.problems:
        raise UserError(f"a published run cannot be used: {path}: {reason}")
    changes.add(folder, made)
    if CERTIFICATES not in made and (folder / CERTIFICATES).is_file():
        changes.removed.append(folder / CERTIFICATES)


def page_changes(folder: Path, changes: Changes) -> None:
    """Add to `changes` those of README.md and figures, and what else does not belong there."""
    made = page(folder)
    changes.warnings += made.warnings
    changes.add_page(folder, made.files, lambda name: RECORD.fullmatch(name) is not None)


def rebuild(place: Path, front_page: Path | None = None, check: bool = False) -> Changes:
    """Make a table's folder again, or every one below `place`, and the index; return what is left.

    Left are files that belong to no page and warnings, and where it is only a `check`, which
    writes nothing, every difference; of a table whose numbers are missing, only that they are. A
    table's own folder brings the index above up to date. Tables of measurements are left as they
    are, and named.
    Raises UserError where there is no such table.
    """
    results = place.absolute().parent if is_table(place) else place
    folders = [place] if is_table(place) else table_folders(place)
    if not folders:
        raise UserError(f"no published table below '{place}'\nlrbench publish TABLE makes one")
    changes = Changes(measured=list(filter(is_measured, folders)))
    swept = [folder for folder in folders if folder not in changes.measured]
    for folder in swept:
        add_numbers(folder, changes)
    _settle(changes, check)
    missing = {path.parent for path in changes.written if not path.exists()}
    for folder in swept:
        if folder not in missing:
            page_changes(folder, changes)
    if missing:  # only a check gets here: without its numbers a table has no page
        return changes
    _settle(changes, check)
    if place == results or not check:
        changes.add(results, index(results))
    if front_page:
        changes.add(front_page.parent, {front_page.name: with_tables(front_page, results)})
    _settle(changes, check)
    return changes


def _settle(changes: Changes, check: bool) -> None:
    """Pages are made from numbers that are there, and the index from pages that are."""
    if not check:
        changes.apply()
