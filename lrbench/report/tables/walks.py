"""Tables of walks between protocols: the number after each step, and each factor's share.

A step's change is the number before it minus the number after it: what the walk loses there. A
factor *alone* is the end of the walk with that one step left out, minus the end. It is called the
reason where that gives back at least half of the gap between both ends (and the gap's interval
excludes 0, on the side of the printed one: there is no reason for a gap that is not there).
Intervals are bootstraps over runs, each set of runs resampled by itself; two readings
of the same runs are resampled together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.selection import chances, select
from lrbench.report.output.cells import Column, PrintedCell, Table, estimate
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.notes import capped, competing, other_settings, unsuccessful
from lrbench.statistics import FEWEST, percentiles, resample
from lrbench.tables import TableSpec
from lrbench.walks import FACTORS, Station, StationReading, Walk

LEVEL, HALF = 0.95, 0.5
REASON = "reason"
OVER: dict[str, Any] = {"mean": np.mean, "max": np.max}

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stand:
    """A station with its runs: their accuracies as its reading has them, and the one number.

    place: of its runs among all, so that two readings of them are resampled alike. contested:
    several configurations compete for it, and none is chosen.
    """

    station: Station
    place: int
    accuracies: tuple[float, ...]
    chance: float | None
    contested: bool = False

    @property
    def values(self) -> list[float]:
        """Return the number of each run, on the scale of the reading; none without chance."""
        if self.station.reading.scale == "raw":
            return list(self.accuracies)
        if self.chance is None:
            return []
        return [(one - self.chance) / (1 - self.chance) for one in self.accuracies]

    @property
    def value(self) -> float | None:
        """Return the number of all runs together; None where no run has ended."""
        return float(self._over(np.asarray(self.values))) if self.values else None

    @cached_property
    def draws(self) -> Array | None:
        """Return the number of each resample; None of fewer than three runs."""
        if len(self.values) < FEWEST:
            return None
        return np.asarray(self._over(resample(np.asarray(self.values), self.place), axis=1))

    def _over(self, values: Array, **options: Any) -> Any:
        return OVER[self.station.reading.over](values, **options)


@dataclass(frozen=True)
class Change:
    """A difference of two stands with its interval; None where either has no number."""

    value: float | None
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, before: Stand, after: Stand) -> Change:
        """Return `before` minus `after`."""
        if before.value is None or after.value is None:
            return cls(None, None)
        ends = None
        if before.draws is not None and after.draws is not None:
            ends = percentiles(before.draws - after.draws, LEVEL)
        return cls(before.value - after.value, ends)

    @property
    def beyond_chance(self) -> bool:
        """Whether its interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass(frozen=True)
class WalkedStep:
    """A step: its stand, what it changed, and what the end gains where it alone is left out."""

    stand: Stand
    change: Change
    alone: Change


@dataclass(frozen=True)
class Walked:
    """A walk with the numbers of its runs."""

    walk: Walk
    start: Stand
    steps: tuple[WalkedStep, ...]

    @property
    def stands(self) -> list[Stand]:
        return [self.start, *(step.stand for step in self.steps)]

    @property
    def gap(self) -> Change:
        """What is between both ends, each by its own reading."""
        return Change.of(self.start, self.steps[-1].stand)

    @property
    def printed_gap(self) -> float:
        """The first paper's number minus the second's."""
        first, last = self.walk.claims
        return first.value - last.value

    def is_reason(self, step: WalkedStep) -> bool:
        """Whether a step alone gives back half of the gap or more."""
        gap, back = self.gap, step.alone.value
        if not gap.value or back is None or not gap.beyond_chance:
            return False
        if gap.value * self.printed_gap <= 0:
            return False
        return back / gap.value >= HALF

    def of_factor(self, factor: str) -> float | None:
        """Return what all steps of a factor changed; None where a number is missing."""
        found = [s.change.value for s in self.steps if s.stand.station.factor == factor]
        return None if None in found else sum(value for value in found if value is not None)


def walked(collection: Collection, spec: TableSpec, choose: Sequence[str] = ()) -> list[Walked]:
    """Return every walk of a table with the runs there are."""
    cells = select(collection, spec, choose)
    places = {cell.overrides: place for place, cell in enumerate(spec.cells)}
    levels = chances(cells)

    def stand(station: Station) -> Stand:
        place = places[station.overrides]
        cell = cells[place]
        accuracies = _accuracies(cell, station.reading)
        return Stand(station, place, accuracies, levels[cell.task], cell.contested)

    found = []
    for walk in spec.walks:
        stands = [stand(station) for station in walk.stations]
        steps = []
        for at, (before, after) in enumerate(pairwise(stands)):
            alone = Change.of(stand(walk.without(at)), stands[-1])
            steps.append(WalkedStep(after, Change.of(before, after), alone))
        found.append(Walked(walk, stands[0], tuple(steps)))
    return found


def _accuracies(cell: FilledCell, reading: StationReading) -> tuple[float, ...]:
    return tuple(cell.values(reading.rule, reading.of, "test"))


def walk_tables(
    collection: Collection, spec: TableSpec, *, choose: Sequence[str] = (), digits: int = 3
) -> list[Table]:
    """Return a table a walk, and one that says what of each contradiction is which factor."""
    found = walked(collection, spec, choose)
    last, cells = _factors(spec, found, digits), select(collection, spec, choose)
    shown = pd.concat([cell.runs for cell in cells])
    notes = (
        *last.notes,
        *other_settings(cells),
        *capped((line for cell in cells for line in competing(cell, collection)), "cells"),
        *unsuccessful(shown[~shown.index.duplicated()]),
    )
    return [*(_steps(spec, one, digits) for one in found), replace(last, notes=notes)]


def _steps(spec: TableSpec, one: Walked, digits: int) -> Table:
    first, last = one.walk.claims
    rows = [_row(one.start, (PrintedCell(), PrintedCell()), digits, _claim(first.value))]
    for step in one.steps:
        said = _claim(last.value) if step is one.steps[-1] else PrintedCell()
        alone = _change(step.alone, digits)
        if one.is_reason(step):
            alone = PrintedCell(f"{alone.text} {REASON}", alone.values)
        rows.append(_row(step.stand, (_change(step.change, digits), alone), digits, said))
    titles = ("factor", "read", "runs", "value", "change", "alone", "printed")
    columns = (
        Column("step", right=False),
        *(Column(t, right=t not in ("factor", "read")) for t in titles),
    )
    notes = (
        f"printed: {first.source}; {last.source}",
        "value: by the reading of that station, with a 95 % interval; change: the value before the"
        " step minus the one after it; alone: the end with this one step left out, minus the end;"
        f" {REASON}: that is half of the gap between both ends or more, and the gap is to the side"
        " of the printed one",
        f"between both ends: {_change(one.gap, digits).text}",
        *_chance_note(one.stands, digits),
        *_missing(one.stands),
    )
    return Table(f"{spec.title}: {one.walk.label}", columns, tuple(rows), notes)


def _chance_note(stands: Iterable[Stand], digits: int) -> list[str]:
    levels = {f"{one.chance:.{digits}f}" for one in stands if one.chance is not None}
    return [f"chance, raw: {' to '.join(sorted(levels))}; scaled: 0"] if levels else []


def _row(
    stand: Stand, changes: tuple[PrintedCell, PrintedCell], digits: int, said: PrintedCell
) -> tuple[PrintedCell, ...]:
    value = stand.value
    ends = None if stand.draws is None else percentiles(stand.draws, LEVEL)
    return (
        PrintedCell(stand.station.label),
        PrintedCell(stand.station.factor),
        PrintedCell(_read(stand.station.reading)),
        PrintedCell(f"{len(stand.accuracies)}"),
        PrintedCell() if value is None else estimate(value, ends, digits),
        *changes,
        said,
    )


def _read(reading: StationReading) -> str:
    """How a number is read, such as 'best, look, max' or 'last, test, mean, scaled'."""
    scale = [reading.scale] if reading.scale != "raw" else []
    return ", ".join([reading.rule, reading.of, reading.over, *scale])


def _change(change: Change, digits: int) -> PrintedCell:
    return (
        PrintedCell() if change.value is None else estimate(change.value, change.interval, digits)
    )


def _claim(value: float) -> PrintedCell:
    return PrintedCell(f"{value:.3f}", (value,))


def _missing(stands: Iterable[Stand]) -> Iterator[str]:
    without = [stand for stand in stands if not stand.accuracies]
    for contested, told in (
        (False, "no run has a number of"),
        (True, "several configurations compete, and none is shown, of"),
    ):
        labels = [stand.station.label for stand in without if stand.contested is contested]
        if labels:
            yield f"{told}: {'; '.join(dict.fromkeys(labels))}"


def _factors(spec: TableSpec, found: Sequence[Walked], digits: int) -> Table:
    """What of each printed contradiction is which factor."""
    rows = []
    for one in found:
        printed, gap = one.printed_gap, one.gap.value
        parts = [one.of_factor(factor) for factor in FACTORS]
        left = None if gap is None else printed - gap
        numbers = [printed, gap, *parts, left]
        cells = (
            PrintedCell() if n is None else PrintedCell(f"{n:.{digits}f}", (n,)) for n in numbers
        )
        rows.append((PrintedCell(one.walk.label), *cells))
    titles = ("printed gap", "our gap", *FACTORS, "unexplained")
    columns = (Column("walk", right=False), *map(Column, titles))
    notes = (
        "printed gap: the first paper's number minus the second's, each as printed; our gap: the"
        " same of our runs, the sum of the factors; unexplained: what our walk does not show, such"
        " as budget, width, kernels and data",
    )
    return Table(f"{spec.title}: which factor is worth what", columns, tuple(rows), notes)
