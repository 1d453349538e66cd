"""What a measured table is: how its raw output becomes rows, and rows a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pages.figure import Plot
from lrbench.report.output.cells import Table

FACTOR = 2.0  # a ratio further than this from the paper's is said to differ

Row = dict[str, str]  # of runs.csv
Settings = Mapping[str, Any]  # settings.json


@dataclass(frozen=True)
class RawOutput:
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
class MeasuredTable:
    """A measured table. `command` is what measures it, in place of a record's `program_words`.

    `rows` reads raw output, `further` what of it settings.json keeps beside the usual; `tables`,
    `compared` and `plots` read rows and settings, `about` is said about all of them.
    """

    title: str
    source: str
    command: str
    program_words: int
    about: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[RawOutput]], list[dict[str, Any]]]
    tables: Callable[[Sequence[Row], Settings, Path | None], list[Table]]
    compared: Callable[[Sequence[Row], Settings, Path | None], list[Compared]]
    further: Callable[[Sequence[RawOutput]], dict[str, Any]] = lambda raw: {}
    plots: Callable[[Sequence[Row], Settings], list[Plot]] = lambda rows, settings: []
