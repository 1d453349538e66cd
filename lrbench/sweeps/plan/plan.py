"""The plan of a sweep: its runs, those that are finished, and the jobs for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from lrbench.config import Config
from lrbench.errors import NoData
from lrbench.records import Result, recorded
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.run import Run
from lrbench.runs.train.validate import validated
from lrbench.sweeps.plan.expansion import Overrides, distinct_names

Stamp = tuple[int, int] | None  # which file lay there: time and inode


@dataclass(eq=False)
class PlannedRun:
    """One run: where it goes, how the sweep names it, and what lay there at the start."""

    run: Run
    label: str
    result: Result | None
    old_result: Stamp = None
    old_failure: Stamp = None

    @property
    def cell(self) -> Cell:
        return self.run.cell

    @property
    def seed(self) -> int:
        return self.run.seed

    @property
    def name(self) -> str:
        return f"{self.label} · seed {self.seed}"


@dataclass(eq=False)
class Job:
    """What a launcher is given at once: overrides that train these runs of one cell."""

    overrides: Overrides
    runs: list[PlannedRun]


@dataclass
class Plan:
    """Every run of a sweep once, in order, and the jobs for those without a result."""

    runs: list[PlannedRun] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    without_data: dict[str, NoData] = field(default_factory=dict)  # tasks whose cells are left out

    @property
    def finished(self) -> list[PlannedRun]:
        """Runs that had a result before the sweep began."""
        to_do = {id(run) for run in self.to_do}
        return [run for run in self.runs if id(run) not in to_do]

    @property
    def to_do(self) -> list[PlannedRun]:
        """Runs that the jobs train."""
        return [run for job in self.jobs for run in job.runs]


def make_plan(
    cells: Sequence[Overrides],
    compose: Callable[[Sequence[str]], Config],
    groups: bool = False,
    labels: Mapping[Overrides, str] | None = None,
    leave_out: bool = False,
) -> Plan:
    """Compose and check every cell and see what is finished; writes nothing.

    With `groups`, seeds of a cell that follow one another are one job, trained together. A cell is
    told by its task and its model, or what `labels` has instead of that. Raises UserError for the
    first cell that could not run; with `leave_out`, one that lacks data that only the user can get
    is left out instead, as long as another can run.
    """
    begun: dict[Path, bool] = {}  # of each cell: whether it has a folder
    known: set[Path] = set()
    like: dict[Any, Cell] = {}
    plan = Plan()
    configs = [compose(overrides) for overrides in cells]
    for overrides, config, name in zip(cells, configs, _names(cells, configs, labels), strict=True):
        cell = _cell(config, like)
        if cell.folder not in begun:
            try:
                validated(config, cell.folder)
            except NoData as error:
                if not leave_out:
                    raise
                plan.without_data.setdefault(config.task.name, error)
                continue
            begun[cell.folder] = cell.folder.exists()
        runs = [_planned(cell, seed, name, begun[cell.folder]) for seed in cell.seeds]
        new = [run for run in runs if run.run.final_folder not in known]
        known.update(run.run.final_folder for run in new)
        plan.runs += new
        plan.jobs += _jobs(config, overrides, [run for run in new if run.result is None])
    if plan.without_data and not plan.runs:
        raise next(iter(plan.without_data.values()))
    if groups:
        plan.jobs = _grouped(plan.jobs)
    return plan


def _cell(config: Config, like: dict[Any, Cell]) -> Cell:
    """Return the cell of a configuration, from one that differs in its seed alone if there was one.

    A `data_seed` can name that seed; the cell of such a configuration is always made anew. Parts
    that are the same objects are equal at a glance; whoever keeps `like` keeps the configurations.
    """
    if config.data_seed is not None:
        return Cell.of(config)
    parts = tuple(id(one) if is_dataclass(one) else repr(one) for one in _but_seed(config))
    if parts not in like:
        words = repr((config.output_dir, recorded(replace(config, seed=0))))
        if words not in like:
            like[words] = Cell.of(config)
        like[parts] = like[words]
    known = like[parts]
    return replace(known, config=config, settings={**known.settings, "seed": config.seed})


_but_seed = attrgetter(*(one.name for one in fields(Config) if one.name != "seed"))


def _names(
    cells: Sequence[Overrides],
    configs: Sequence[Config],
    labels: Mapping[Overrides, str] | None,
) -> list[str]:
    given = labels or {}
    names = [
        f"{config.task.name} · {given.get(cell) or config.model.name}"
        for cell, config in zip(cells, configs, strict=True)
    ]
    return distinct_names(cells, names)


def _planned(cell: Cell, seed: int, label: str, begun: bool) -> PlannedRun:
    run = Run(cell, seed, fresh=cell.config.force)
    if not begun:
        return PlannedRun(run, label, None, None, None)
    usable = not run.fresh and not run.swap_was_cut_off
    result = run.result() if usable else None
    return PlannedRun(
        run, label, result, stamp(run, "result.json"), stamp(run, "failure.json", "new")
    )


def stamp(run: Run, name: str, beside: str = "") -> Stamp:
    """Tell one writing of a file of a run from the next; None where there is no such file."""
    folder = run.folder if beside else run.final_folder
    try:
        status = (folder / name).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _jobs(config: Config, overrides: Overrides, runs: list[PlannedRun]) -> Iterator[Job]:
    """One job a run.

    A cell whose `data_seed` is set stays whole: alone, a run whose seed equals it would have
    another fingerprint.
    """
    if config.trials == 1 or config.data_seed is not None:
        if runs:
            yield Job(overrides, runs)
        return
    for run in runs:
        yield Job((*_without_seeds(overrides), f"seed={run.seed}"), [run])


def _grouped(jobs: Sequence[Job]) -> list[Job]:
    """Join jobs of single seeds that follow one another and differ in nothing else.

    A cell whose `data_seed` is set goes as it was typed.
    """
    joined: list[Job] = []
    for job in jobs:
        before = joined[-1] if joined else None
        if before is None or not _follows(before, job):
            joined.append(job)
            continue
        runs = [*before.runs, *job.runs]
        seeds = f"seed={runs[0].seed}", f"trials={len(runs)}"
        joined[-1] = Job((*_without_seeds(job.overrides), *seeds), runs)
    return joined


def _follows(before: Job, job: Job) -> bool:
    last, first = before.runs[-1], job.runs[0]
    return (
        first.cell.config.data_seed is None
        and first.cell.folder == last.cell.folder
        and first.seed == last.seed + 1
        and _without_seeds(before.overrides) == _without_seeds(job.overrides)
    )


def _without_seeds(overrides: Overrides) -> Overrides:
    return tuple(
        override for override in overrides if override.partition("=")[0] not in ("seed", "trials")
    )
