"""Making a table's page from what lies in its folder, and telling what differs from it."""

from __future__ import annotations

import re
from pathlib import Path

from lrbench.errors import UserError
from lrbench.publish.changes import Changes
from lrbench.publish.layout import RECORDS, Files
from lrbench.publish.page import page
from lrbench.report.runs.archive import archive
from lrbench.report.runs.collect import collect

# records/<task>/<model>/<protocol>/<fingerprint>/ and the files of it and of its runs
RECORD = re.compile(
    rf"{RECORDS}/[^/]+/[^/]+/[^/]+/[0-9a-f]+/(?:config\.json|environment\.json"
    r"|s\d+/(?:result\.json|failure\.json|metrics\.jsonl|evaluations/[^/]+\.json"
    r"|certificates/[^/]+\.(?:json|npz)))"
)


def numbers(folder: Path) -> Files:
    """Return runs.csv and what belongs to it as the records of a table make them.

    Nothing without any.

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
    made = page(folder)
    changes.warnings += made.warnings
    changes.add_page(folder, made.files, lambda name: RECORD.fullmatch(name) is not None)
