"""When and with what the runs of a report were made, from each cell's environment.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from lrbench.report.collect import Collection
from lrbench.report.finding import cell_of

VERSIONS = ("lrbench", "torch", "python")
MOST = 4  # values of one kind that are named
COMMIT_DIGITS = 10


def provenance(collection: Collection) -> Iterator[str]:
    """Yield 'newest run 2026-11-21', 'torch 2.13.0' and the like; what is not told is left out."""
    found = list(_environments(collection))
    dates = [date for one in found if (date := _date(one.get("date")))]
    if dates:
        yield f"newest run {max(dates):%Y-%m-%d}"
    for name in VERSIONS:
        yield from _named(name, (one.get(name) for one in found))
    yield from _named("commit", (str(one.get("commit") or "")[:COMMIT_DIGITS] for one in found))
    yield from _named("on", collection.runs["device"].dropna())


def _environments(collection: Collection) -> Iterator[dict[str, Any]]:
    """Yield what is known of each cell."""
    for cell in sorted({cell_of(folder) for folder in collection.runs["folder"]}):
        if cell in collection.environments:
            yield collection.environments[cell]


def _date(text: Any) -> datetime | None:
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else None  # a naive one cannot be compared with the others


def _named(name: str, values: Iterable[Any]) -> Iterator[str]:
    there = sorted({str(value) for value in values if value})
    more = f" and {len(there) - MOST} more" if len(there) > MOST else ""
    if there:
        yield f"{name} {', '.join(there[:MOST])}{more}"
