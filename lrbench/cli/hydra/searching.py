"""A sweep over a table with a search: every cell is tuned first, by the same search for all.

The runs of the search have folders of their own, as all runs do, so the same command resumes where
it stopped. The choice is made by validation strings of the training lengths: the first point of the
grid that is good enough (`enough` of the table), else the one of lowest loss. It is stored in no
file: the folders give the same choice again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lrbench.cli.hydra.grid import key_of
from lrbench.cli.hydra.sweeping import SweepRequest, run_plan
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.run import Run
from lrbench.statistics import mean
from lrbench.sweeps.plan.expansion import Overrides, expand
from lrbench.sweeps.plan.plan import Plan, make_plan
from lrbench.sweeps.plan.report import announce, plan_table
from lrbench.sweeps.tune.choice import Point, attempt
from lrbench.sweeps.tune.table import validation
from lrbench.tables import TableSearch


@dataclass(frozen=True)
class TunedCell:
    """The points of one cell: the overrides to train it with, and those that try them."""

    cell: Overrides
    chosen: list[Overrides]
    tried: list[Overrides]

    @classmethod
    def of(cls, cell: Overrides, search: TableSearch) -> TunedCell:
        """Return the search of a cell; `tuning_runs` of what it chooses is the number of points."""
        points = expand(search.grid)
        noted = f"tuning_runs={len(points)}"
        return cls(
            cell,
            [(*cell, *point, noted) for point in points],
            [_settled((*cell, *search.settings, *point)) for point in points],
        )

    def choice(self, request: SweepRequest, search: TableSearch) -> Overrides | None:
        """Return the overrides that won; None where a run is missing, or none ended well."""
        points = [_point(request, overrides) for overrides in self.tried]
        if any(one.status == "failed" for point in points for one in point.attempts):
            return None
        best = search.choice([_told(point) for point in points])
        return None if best is None else self.chosen[best]


def needs_search(request: SweepRequest) -> bool:
    """Whether the cells are tuned first: the table has a search, and no value of it was typed.

    Where one was, that is said: a suite ranks only runs whose rate its own search chose.
    """
    if request.search is None:
        return False
    keys = {key_of(argument) for argument in request.search.grid}
    typed = {word for cell in request.cells for word in cell if key_of(word) in keys}
    if typed:
        announce(f"no search, as {sorted(typed)[0]} is given: a suite ranks searched rates only")
    return not typed


def run_searched(request: SweepRequest, dry_run: bool, detach: bool) -> int:
    """Tune every cell, then train each with what was chosen; return the exit code.

    With `detach` or `dry_run` only the first of the two that has something to do. A cell whose
    search has a run that failed is left out, and said.
    """
    assert request.search is not None
    searches = [TunedCell.of(cell, request.search) for cell in request.cells]
    trying = replace(request, cells=[tried for one in searches for tried in one.tried], labels={})
    plan = _planned(trying)
    if dry_run and plan.jobs:
        announce(f"first the search, {len(plan.runs)} runs; then {len(searches)} cells")
        plan_table(plan)
        return 0
    code = 0
    if plan.jobs:
        code = run_plan(plan, trying, validation, detach=detach)
        if detach:
            return code
    found = [(one, one.choice(request, request.search)) for one in searches]
    for one, choice in found:
        if choice is None:
            announce(f"not tuned, so not trained: {' '.join(one.cell)}")
    chosen = {choice: request.labels.get(one.cell, "") for one, choice in found if choice}
    tuned = replace(request, cells=list(chosen), labels=chosen)
    after = _planned(tuned)
    if dry_run:
        plan_table(after)
        return 0
    ended = run_plan(after, tuned, detach=detach) if chosen else 0
    return max(code, ended, int(len(chosen) < len(searches)))


def _planned(request: SweepRequest) -> Plan:
    return make_plan(request.cells, request.compose, request.grouping, request.labels)


def _point(request: SweepRequest, overrides: Overrides) -> Point:
    cell = Cell.of(request.compose(overrides))
    attempts = tuple(attempt(seed, Run(cell, seed).result()) for seed in cell.seeds)
    return Point((), attempts)


def _told(point: Point) -> tuple[float, float] | None:
    """The validation accuracy and loss of a point, None where a run of it did not end well."""
    if len(point.scores) < len(point.attempts):
        return None
    return point.accuracy, mean([score.loss for score in point.scores])


def _settled(words: Sequence[str]) -> Overrides:
    """One word a key, the last."""
    return tuple({key_of(word): word for word in words}.values())
