"""The rows and columns that a user asks for: which runs know them, which none does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from lrbench.errors import unknown
from lrbench.report.corpora.chosen import columns_there, knows_column, knows_row
from lrbench.report.paper.reference import is_row, printed, printed_modulus
from lrbench.report.runs.collection import Collection


def known(kind: str, names: Sequence[str], there: Iterable[str]) -> list[str]:
    """Return `names`, or all there are. Raises UserError for one that is not there."""
    found = sorted(set(there) - {"?"})
    for name in names:
        if name not in found:
            raise unknown(f"{kind} (among these runs)", name, found, exit_code=2)
    return list(dict.fromkeys(names)) or found


def names_at_lengths(
    collection: Collection,
    runs: pd.DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    references: Path | None,
) -> tuple[list[str], list[str], bool]:
    """Return the rows and columns that runs at lengths know, and whether there is any such table.

    The others are about runs over a corpus. Raises UserError for a name that neither know.
    """
    tasks, models = set(runs["task"]), set(runs["model"])
    mine = [name for name in columns if name in tasks]
    for name in columns:
        if name not in tasks and not knows_column(name, collection):
            there = [*tasks, *columns_there(collection)]
            raise unknown("task or split (among these runs)", name, there, exit_code=2)
    theirs = _printed_anywhere(runs, mine or tasks, references)
    named = [name for name in rows if name in models or any(is_row(t, name) for t in theirs)]
    for name in rows:
        if name not in named and not knows_row(name, collection, references):
            known("model", [name], collection.runs["model"])
    return named, mine, bool(len(runs)) and bool(mine or not columns) and bool(named or not rows)


def printed_models(protocol: str, tasks: Iterable[str], references: Path | None) -> list[str]:
    """Return the models that the paper of a protocol prints numbers of."""
    moduli = ((task, printed_modulus(task, protocol, references)) for task in tasks)
    found = (row for task, m in moduli for row in printed(task, m, protocol, references))
    return list(dict.fromkeys(row.model for row in found))


def among(name: str, rows: Iterable[str]) -> bool:
    """Tell whether a model of the paper is one of `rows`."""
    return any(is_row(name, row) for row in rows)


def _printed_anywhere(
    runs: pd.DataFrame, tasks: Iterable[str], references: Path | None
) -> list[str]:
    protocols = sorted(set(runs["protocol"]))
    return [name for protocol in protocols for name in printed_models(protocol, tasks, references)]
