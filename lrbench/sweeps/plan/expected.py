"""Expected durations of runs: from similar runs here, else from published ones elsewhere.

A run's own past is the best guess: others of its sizes, below the same output folders. Where there
is none, published runs of its model give the cost of an update for each symbol it reads. A known
workload, trained for two seconds once an hour, compares this machine with the one they ran on.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

import torch

from lrbench.errors import UserError
from lrbench.locations import cache_dir, published_dir
from lrbench.protocols.base import declared
from lrbench.records import Result
from lrbench.report.runs.archive import SETTINGS, TABLE, ended_runs
from lrbench.report.runs.columns import Settings
from lrbench.report.runs.record import flat
from lrbench.report.runs.schema import result_complaint
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.schema import config_from
from lrbench.sweeps.plan.plan import Plan, PlannedRun
from lrbench.training.procedure import make_trial, procedure_for
from lrbench.version import __version__

SIZES = ("train_length", "train_split", "batch_size", "micro_batch", "bucket", "supervision")
TRAINING = {"max_steps", "epochs", "stop", "look_every", "look_size", "batch_size", "micro_batch"}
RANGE = "train_lengths"  # what protocols of several lengths have instead of `train_length`
CALIBRATION = 2.0  # seconds of updates, at most
STEADY, AGREE = 20, 0.1  # so many updates are enough whose halves differ by less
PACE, HOUR = "pace.json", 3600.0  # what was measured, and how long it stands
KNOWN = {"protocol": "fan2024", "task": "sum", "model": "lstm"}  # published, and trained again here


# The settings that `published_rate` looks at.
TOLD_BY = ("model.name", "protocol.name", "model.layers", "model.width", "task.name")


class Expected(NamedTuple):
    """The seconds that a run may take, about, if all its updates are made.

    published: they were measured elsewhere. whole: the examination at the end is among them.
    """

    seconds: float
    published: bool
    whole: bool = False


class Cost(NamedTuple):
    """A published run: what it is, and the seconds of an update for each symbol it reads."""

    task: str
    model: str
    protocol: str
    layers: Any
    width: Any
    seconds: float


class Estimate:
    """What runs like those of a plan cost in the past, here or on the machine of published ones."""

    def __init__(self, plan: Plan) -> None:
        self._rates: dict[str, list[float]] = {}
        self._examined: dict[str, list[float]] = {}
        self._of: dict[Path, Expected | None] = {}  # by cell: its runs take as long as each other
        self._published: dict[tuple[Any, ...], float | None] = {}  # by what the rate is told by
        folders = {run.cell.folder.parents[2]: None for run in plan.runs}  # output_dir/task
        for result in _results(folders):
            seconds, steps = result.get("train_seconds"), result["steps"]
            if seconds and steps:
                self._rates.setdefault(_workload(result["config"]), []).append(seconds / steps)
            if (examined := result.get("examination_seconds")) is not None:
                self._examined.setdefault(_examination(result["config"]), []).append(examined)

    def of(self, run: PlannedRun) -> Expected | None:
        """Return what this run should take; None if nothing like it is known.

        All updates are counted: one that stops early, or goes on from a checkpoint, takes less.
        Not counted are looks, the start of a process, and what it compiles first.
        """
        if run.cell.folder not in self._of:
            self._of[run.cell.folder] = self._measured(run)
        return self._of[run.cell.folder]

    def _measured(self, run: PlannedRun) -> Expected | None:
        mine = self._rates.get(_workload(run.cell.settings))
        examined = self._examined.get(_examination(run.cell.settings), [])
        beside = median(examined) if examined else 0.0
        if mine:
            updates = median(mine) * procedure_for(run.cell.config).updates
            return Expected(updates + beside, False, bool(examined))
        settings = flat(run.cell.settings)
        alike = tuple(map(settings.get, TOLD_BY))
        if alike not in self._published:
            self._published[alike] = published_rate(settings)
        rate = self._published[alike]
        if rate is None:
            return None
        updates = procedure_for(run.cell.config).updates
        seconds = rate * _symbols(settings) * updates * machine_ratio()
        return Expected(seconds + beside, True, bool(examined))


def published_rate(settings: Settings) -> float | None:
    """Return the seconds of an update for each symbol, of published runs most like one of these.

    The median of those with the same model and, as far as there are such, the same sizes, protocol
    and task; of another depth, in proportion to the layers. None where no published run has the
    model; nor where none has it on the same corpus, whose strings are as long as they are.
    """
    name, protocol, task = map(settings.get, ("model.name", "protocol.name", "task.name"))
    there = [
        one
        for one in published_costs()
        if one.model == name
        and declared(one.protocol).by_split == _by_split(protocol)
        and (one.task == task or not _by_split(protocol))
    ]
    wanted = {
        "layers": settings.get("model.layers"),
        "width": settings.get("model.width"),
        "protocol": protocol,
        "task": task,
    }
    for key, value in wanted.items():
        there = [one for one in there if getattr(one, key) == value] or there
    layers = wanted["layers"] or 1
    return median(one.seconds * layers / (one.layers or layers) for one in there) if there else None


@cache
def published_costs() -> tuple[Cost, ...]:
    """Return what each published run of a CPU took, trained for its whole number of updates.

    A table that cannot be read, such as one that was being published when that was killed, tells
    nothing.
    """
    found = []
    for path in sorted(published_dir().glob(f"*/{TABLE}")):
        try:
            if "varying" not in files.read_json(path.with_name(SETTINGS)):
                continue  # measurements, no runs
            runs = ended_runs(path.parent)
        except (UnreadableFile, UserError):
            continue
        for run, settings in runs:
            steps, seconds, symbols = run["steps"], run["train_seconds"], _symbols(settings)
            if run["device"] != "cpu" or not (steps and seconds and symbols):
                continue
            what = run["task"], run["model"], run["protocol"]
            sizes = settings.get("model.layers"), settings.get("model.width")
            found.append(Cost(*what, *sizes, seconds / steps / symbols))
    return tuple(found)


@cache
def machine_ratio() -> float:
    """Return how long an update takes here, over what it took where published runs were trained.

    Trains a published workload for two seconds at most, or takes what that gave within the last
    hour. 1 where none of it is published.
    """
    theirs = [
        one.seconds
        for one in published_costs()
        if all(getattr(one, key) == value for key, value in KNOWN.items())
    ]
    if not theirs:
        return 1.0
    config: Any = config_from({key: {"name": name} for key, name in KNOWN.items()})
    symbols = float(config.protocol.batch_size * config.protocol.train_length)
    return (_remembered() or _measured_here(config)) / symbols / median(theirs)


def _remembered() -> float | None:
    """The seconds of a known update, if a process of the last hour has measured them."""
    try:
        found = files.read_json(cache_dir() / PACE)
        age = time.time() - float(found["at"])
        known = 0 <= age < HOUR and found["versions"] == _versions() and found["seconds"] > 0
        return float(found["seconds"]) if known else None
    except (UnreadableFile, KeyError, TypeError, ValueError):
        return None


def _measured_here(config: Any) -> float:
    """The median seconds of a known update, trained now and written down for the next hour."""
    trial = make_trial(config, 0)
    taken: list[float] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a run has; several wait for each other where others work
    try:
        trial.update()  # what is compiled and allocated once
        while sum(taken) < CALIBRATION and not _steady(taken):
            begun = time.perf_counter()
            trial.update()
            taken.append(time.perf_counter() - begun)
    finally:
        torch.set_num_threads(threads)
    found = {"seconds": median(taken), "at": time.time(), "versions": _versions()}
    with suppress(OSError):  # a read-only home: measured by each process
        cache_dir().mkdir(parents=True, exist_ok=True)
        files.write_json(cache_dir() / PACE, found)
    return median(taken)


def _versions() -> list[str]:
    """What the cost of an update depends on beside the machine and who else works on it."""
    return [__version__, torch.__version__, platform.node()]


def _steady(taken: Sequence[float]) -> bool:
    """Whether the halves of these times have nearly one median."""
    half = len(taken) // 2
    if len(taken) < STEADY:
        return False
    first, second = median(taken[:half]), median(taken[half:])
    return abs(first - second) < AGREE * min(first, second)


def _by_split(protocol: Any) -> bool:
    return declared(str(protocol)).by_split


def _symbols(settings: Settings) -> float:
    """The symbols of an update, or 1 where a corpus decides: then an update is the measure."""
    batch, length = settings.get("protocol.batch_size"), settings.get("protocol.train_length")
    span = settings.get(f"protocol.{RANGE}")
    if length is None and span is not None:
        length = sum(json.loads(span) if isinstance(span, str) else span) / 2
    return float(batch) * length if batch and length else 1.0


def _results(folders: Iterable[Any]) -> Iterator[Result]:
    for folder in folders:
        for path in folder.glob("*/*/*/s*/result.json"):
            try:
                result = files.read_json(path)
            except UnreadableFile:
                continue
            if result_complaint(result) is None:
                yield cast(Result, result)


def _workload(config: dict[str, Any]) -> str:
    """What two configurations share whose updates cost the same."""
    protocol = config.get("protocol") or {}
    sizes = [protocol.get(key) for key in (*SIZES, RANGE)]
    parts = [config.get("task"), config.get("model"), sizes, config.get("threads")]
    return json.dumps(parts, sort_keys=True)


def _examination(config: dict[str, Any]) -> str:
    """What two configurations share whose examinations cost the same, as far as one can tell.

    A model that fails is examined less, and one that stops early.
    """
    protocol = {
        key: value for key, value in (config.get("protocol") or {}).items() if key not in TRAINING
    }
    parts = [config.get("task"), config.get("model"), protocol, config.get("threads")]
    return json.dumps(parts, sort_keys=True)
