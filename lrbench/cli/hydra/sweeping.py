"""Sweeps from the command line: typed words as cells and a launcher, and jobs run by Hydra."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lrbench.checks import nearest, shown
from lrbench.cli.hydra.compose import composed, hydra_main, run_hydra, translated_errors
from lrbench.cli.hydra.launchers import (
    BASIC,
    JOBLIB,
    LAUNCHER,
    SLURM,
    check_devices,
    check_processes,
    devices_in,
    is_launcher,
    launcher_of,
    queue_of,
    start_in_background,
    with_defaults,
)
from lrbench.cli.hydra.overrides import check_folder
from lrbench.cli.hydra.sharing import SharedComposition
from lrbench.config import Config
from lrbench.errors import UserError, missing
from lrbench.locations import conf_dir
from lrbench.records import Result
from lrbench.schema import register_schema
from lrbench.sweeps.plan.expansion import Overrides, expand, of_table, table_cells
from lrbench.tables import TableSearch, TableSpec, load_table

if TYPE_CHECKING:
    from lrbench.sweeps.plan.plan import Plan

LATER = "the same command without --detach waits for it and shows the end"
EXTRAS = {JOBLIB: "parallel", "submitit_local": "slurm", "submitit_slurm": "slurm"}


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as it was typed: its cells, the rule of its numbers, the launcher's settings.

    compose: from a cell to its configuration, as `lrbench train` would be given it.
    """

    cells: list[Overrides]
    labels: dict[Overrides, str] = field(default_factory=dict)
    rule: str = "best"
    table: str | None = None  # whose report shows its runs
    launcher: list[str] = field(default_factory=list)
    folder: Path | None = None
    devices: tuple[str, ...] = ()
    search: TableSearch | None = None
    compose: Callable[[Sequence[str]], Config] = composed

    @classmethod
    def read(cls, arguments: Sequence[str], table: str | None, folder: Path | None) -> SweepRequest:
        """Read the words. Raises UserError for what is no setting, and for an unknown table."""
        launcher = [argument for argument in arguments if is_launcher(argument)]
        rest = [argument for argument in arguments if argument not in launcher]
        for argument in rest:
            if argument.startswith("-"):
                raise UserError(
                    f"sweep does not take {shown(argument)}\n"
                    "flags: --table NAME, --dry-run, --detach, --config-dir FOLDER;"
                    " all else is KEY=V1,V2",
                    exit_code=2,
                )
        if folder is not None:
            check_folder(folder)
            folder = folder.absolute()
        register_schema()
        launcher, devices = devices_in(launcher)
        _check_launcher(launcher)
        request = cls([], {}, "best", table, launcher, folder, devices, None, _composition(folder))
        if table is None:
            return replace(request, cells=expand(rest))
        spec = load_table(table)
        labels = table_cells(spec, rest)
        return replace(
            request,
            cells=list(labels),
            labels=labels,
            rule=spec.rule,
            table=table if of_table(spec, labels) else None,
            search=spec.search,
            compose=_by_its_protocol(request.compose, spec, rest),
        )

    def report_of(self, plan: Plan) -> str:
        """Return the command that prints the numbers of a plan's runs."""
        named = ["--table", self.table] if self.table else []
        folders = dict.fromkeys(str(run.cell.config.output_dir) for run in plan.runs)
        words = [word for folder in folders for word in ("--runs", folder)]
        return shlex.join(["lrbench", "report", *named, *words])

    @property
    def folders(self) -> list[Path]:
        return [folder for folder in (self.folder, conf_dir()) if folder]

    @property
    def grouping(self) -> bool:
        """Whether seeds of a cell go together: not where a launcher has other jobs beside them."""
        return launcher_of(self.launcher) == BASIC


def _composition(folder: Path | None) -> Callable[[Sequence[str]], Config]:
    """Return the way from a cell to its configuration, with the user's own files in `folder`."""
    if folder is None:
        return SharedComposition(composed)
    ours = ["--config-dir", str(folder)]

    def with_files(overrides: Sequence[str]) -> Config:
        found: list[Config] = []
        run_hydra([*ours, *overrides], found.append)
        return found[0]

    return with_files if _refers(folder) else SharedComposition(with_files)


def _by_its_protocol(
    compose: Callable[[Sequence[str]], Config], table: TableSpec, typed: Sequence[str]
) -> Callable[[Sequence[str]], Config]:
    """Return `compose` that refuses a cell which its task would have trained by another protocol.

    The table's report would not show such runs. A typed protocol is the user's own wish.
    """
    if any(word.lstrip("+").startswith("protocol=") for word in typed):
        return compose

    def checked(overrides: Sequence[str]) -> Config:
        config = compose(overrides)
        if (name := config.protocol.name) != table.protocol:
            raise UserError(
                f"table '{table.name}' is of protocol {table.protocol}, and a cell of it would be"
                f" trained by {name}, which is what task {config.task.name} usually has:"
                f" {' '.join(overrides)}\nwrite protocol: {name} in the table's file, or give such"
                " cells a table of their own"
            )
        return config

    return checked


def _refers(folder: Path) -> bool:
    """Whether a file of the user's may have a value that refers to another one."""
    try:
        texts = [path.read_text(errors="replace") for path in folder.rglob("*.yaml")]
    except OSError:  # a folder of that name, or a file of others: Hydra says so if it needs it
        return True
    return any("${" in text for text in texts)


def run_plan(
    plan: Plan,
    request: SweepRequest,
    score: Callable[[Result], str] | None = None,
    detach: bool = False,
) -> int:
    """Do what is to be done; return the exit code, 1 if a run failed. Raises Interrupted.

    `score` says what a result is worth in a line, by default its accuracy at the test length.
    """
    from lrbench.cli.hydra.compose import completed, to_config
    from lrbench.console import results
    from lrbench.sweeps.launch import sweeper
    from lrbench.sweeps.launch.devices import VISIBLE, Placement
    from lrbench.sweeps.launch.drive import Drive
    from lrbench.sweeps.launch.worker import JobFunction, sweeping, tell_workers
    from lrbench.sweeps.plan.ledger import Ledger
    from lrbench.sweeps.plan.report import accuracy, announce, end_table, line_of
    from lrbench.sweeps.plan.waiting import planned

    scored = score or (lambda result: accuracy(result, request.rule))
    ledger = Ledger(plan, lambda end, k, n: announce(f"[{k}/{n}] {line_of(end, scored)}"))
    if plan.finished:
        announce(f"skipped: {len(plan.finished)} of {len(plan.runs)} runs are finished")
    check_devices(request.devices, plan)
    if detach and plan.jobs and launcher_of(request.launcher) != SLURM:
        announce(f"goes on in the background as {start_in_background(plan)}\n{LATER}")
        return 0
    try:
        if plan.jobs:
            queue = queue_of(request.launcher, plan)
            with planned(plan, ledger, announce), sweeping(queue) as parent:
                drive = Drive(
                    plan, ledger, parent, lambda job: completed(job, request.folders), detach
                )
                launcher = with_defaults(request.launcher, request.devices, plan)
                arguments = ["--multirun", sweeper.register(drive), *launcher]
                placement = Placement(request.devices, os.environ.get(VISIBLE))
                job = JobFunction(to_config, parent, placement, detach)
                if launcher_of(request.launcher) == JOBLIB:
                    tell_workers(parent)
                hydra_main(job, arguments, request.folder)
            if detach:
                announce(LATER)
        if not detach and launcher_of(request.launcher) != SLURM:
            _search_finished(plan)
    finally:
        told = ("", "") if score else (request.rule, request.report_of(plan))
        end_table(ledger.ends.values(), len(ledger.open), results(), *told)
    return 1 if any(end.status == "failed" for end in ledger.ends.values()) else 0


def _search_finished(plan: Plan) -> None:
    """Search runs that a sweep before this one trained and was stopped before it searched them."""
    from lrbench.runs.evaluate.ending import search_after_training
    from lrbench.runs.train.result import Outcome

    for run in plan.finished:
        outcome = Outcome(run.seed, run.run.final_folder, "skipped", run.result)
        search_after_training(run.cell.config, [outcome], run.label)


def _check_launcher(arguments: Sequence[str]) -> None:
    """Refuse a launcher that is not there and settings it does not have."""
    if not arguments:
        return
    from hydra import compose, initialize_config_dir

    from lrbench.sweeps.launch.sweeper import launchers

    for argument in arguments:
        key, _, name = argument.partition("=")
        if key == LAUNCHER and name not in launchers():
            raise _no_launcher(name, launchers())
    with translated_errors(), initialize_config_dir(str(conf_dir()), version_base="1.3"):
        compose("config", overrides=list(arguments), return_hydra_config=True)
    check_processes(arguments)


def _no_launcher(name: str, there: list[str]) -> UserError:
    extra = EXTRAS.get(name)
    if extra:
        return missing(f"launcher '{name}'", extra)
    near = nearest(name, [*there, *EXTRAS])
    return UserError(f"launcher '{shown(name)}' unknown.{near}\nhere: {', '.join(there)}")
