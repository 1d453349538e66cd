"""What a measured table is: how its raw output becomes rows, and rows a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.publish.measured.figure import Plot
from lrbench.report.cells import Table

FACTOR = 2.0  # a ratio further than this from the paper's is said to differ

Row = dict[str, str]  # of runs.csv
Settings = Mapping[str, Any]  # settings.json


@dataclass(frozen=True)
class Record:
    """A file of raw output, as a benchmark command wrote it: its name and content."""

    name: str
    content: Any


@dataclass(frozen=True)
class Compared:
    """One ratio of ours beside the paper's."""

    cell: str
    ours: float
    paper: float

    @property
    def differs(self) -> bool:
        return not 1 / FACTOR <= self.ours / self.paper <= FACTOR


@dataclass(frozen=True)
class Kind:
    """A measured table. `command` is what it is measured by, its first words `own` in the record.

    `rows` reads raw output, `further` what of it settings.json keeps beside the usual; `tables`,
    `compared` and `plots` read rows and settings, `numbers` is said about all of them.
    """

    title: str
    source: str
    command: str
    own: int
    numbers: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[Record]], list[dict[str, Any]]]
    further: Callable[[Sequence[Record]], dict[str, Any]]
    tables: Callable[[Sequence[Row], Settings, Path | None], list[Table]]
    compared: Callable[[Sequence[Row], Settings, Path | None], list[Compared]]
    plots: Callable[[Sequence[Row], Settings], list[Plot]]


def nothing_further(records: Sequence[Record]) -> dict[str, Any]:
    """Return what settings.json keeps of raw output that has nothing but rows and options."""
    return {}


def no_plots(rows: Sequence[Row], settings: Settings) -> list[Plot]:
    """Return the figures of a table that has none."""
    return []
