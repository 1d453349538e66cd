"""The states of the runs below a folder, from their files alone; no process is asked.

A run whose lease is held is running. Its rate is that of its newest updates, so that compiling does
not count. A run that has begun, has no result and is trained by no process has stopped: the command
that began it resumes it. A run that a sweep has planned and no process has begun is waiting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, get_args

from lrbench.disk import below
from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.records import Status
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.lease import is_held
from lrbench.sweeps.plan.waiting import waiting

STATES = ("running", "finished", "diverged", "failed", "stopped", "waiting")
ENDED = get_args(Status)  # what a result says of its run
RECENT = 10  # lines of metrics.jsonl that a rate is of
SEED = re.compile(r"s(\d+)(\.new)?")


@dataclass(frozen=True)
class RunStatus:
    """One run: which, its state (one of STATES), how far it is and how fast.

    update: the last one written. updates: how many there are at most. rate: updates a second.
    left: seconds that training may still take, about, without the examination. None: not known.
    """

    task: str
    model: str
    protocol: str
    fingerprint: str
    seed: int
    folder: str
    state: str
    update: int | None = None
    updates: int | None = None
    rate: float | None = None
    left: float | None = None
    message: str | None = None

    @property
    def cell(self) -> str:
        """Its cell in words."""
        return f"{self.task} · {self.model} · {self.protocol} · {self.fingerprint}"


def statuses(root: Path, tell: Callable[[str], None]) -> list[RunStatus]:
    """Return how every run below `root` stands; UserError where there is no such folder.

    `left` of one that has stopped is by the rate of its cell's other runs where it has none; that
    of one that is waiting by the rates of the same model on the same task. tell: takes a line about
    each file of a sweep that cannot be used.
    """
    if not root.is_dir():
        raise UserError(f"no folder '{root}'\nname one that runs are in: lrbench status DIR")
    found = []
    for config in below(root, "config.json"):
        try:
            settings = files.read_json(config)
        except UnreadableFile:
            continue  # `lrbench report` names what cannot be read
        if all(_named(settings.get(part)) for part in ("task", "model", "protocol")):
            found += _cell(config.parent, settings)
    return found + _waiting(root, found, tell)


def _named(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("name"), str)


def _waiting(
    root: Path, begun: Sequence[RunStatus], tell: Callable[[str], None]
) -> list[RunStatus]:
    rates: dict[tuple[str, str, str], list[float]] = {}
    for run in begun:
        if run.rate:
            rates.setdefault((run.task, run.model, run.protocol), []).append(run.rate)
    found = []
    for one in waiting(root, tell):
        usual = rates.get((one.task, one.model, one.protocol))
        run = RunStatus(**vars(one), state="waiting")
        found.append(_timed(run, median(usual) if usual else None))
    return found


def _cell(folder: Path, settings: dict[str, Any]) -> list[RunStatus]:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []  # `unlisted` names it
    seeds = {int(match[1]) for name in names if (match := SEED.fullmatch(name))}
    runs = [_run(folder, settings, seed) for seed in sorted(seeds)]
    rates = [run.rate for run in runs if run.rate]
    return [_timed(run, median(rates) if rates else None) for run in runs]


def _timed(run: RunStatus, usual: float | None) -> RunStatus:
    """Add how long a run still takes, if it has not ended."""
    rate = run.rate or usual
    if run.state not in ("running", "stopped", "waiting") or run.updates is None or not rate:
        return run
    left = max(0, run.updates - (run.update or 0)) / rate
    return RunStatus(**{**vars(run), "left": left})


def _run(cell: Path, settings: dict[str, Any], seed: int) -> RunStatus:
    held = is_held(cell / ".leases" / f"s{seed}" / "lease.json")
    fresh, folder = cell / f"s{seed}.new", cell / f"s{seed}"  # the first of force=true
    if fresh.is_dir() and (held or not folder.is_dir()):
        folder = fresh
    result, failure = _object(folder / "result.json"), _object(folder / "failure.json")
    ended = None if result is None else result.get("status")
    newest = _newest(folder / "metrics.jsonl")
    state = "running" if held else "stopped"
    if ended in ENDED and not (held and folder == fresh):  # another word is damage, like no JSON
        state = str(ended)
    elif failure is not None and not held:
        state = "failed"
    protocol = settings["protocol"]
    name = protocol["name"]
    return RunStatus(
        task=str(settings["task"]["name"]),
        model=str(settings["model"]["name"]),
        protocol=name,
        fingerprint=cell.name,
        seed=seed,
        folder=str(folder),
        state=state,
        update=newest.step,
        updates=declared(name).most_updates(protocol, newest.look),
        rate=_rate(newest.losses),
        message=_said(failure) if failure and state == "failed" else None,
    )


def _said(failure: dict[str, Any]) -> str | None:
    """Why a run failed; None where its failure.json does not say it."""
    error = failure.get("error")
    return error if isinstance(error, str) else None


@dataclass
class Newest:
    """What the end of a log tells: the last update, the last look, and the last losses."""

    step: int | None = None
    look: dict[str, Any] | None = None
    losses: list[dict[str, Any]] = field(default_factory=list)


def _newest(path: Path) -> Newest:
    found = Newest()
    try:
        for line in files.newest_lines(path):
            found.step = line["step"] if found.step is None else found.step
            if found.look is None and isinstance(line.get("look"), dict):
                found.look = line["look"]
            if len(found.losses) < RECENT and isinstance(line.get("seconds"), int | float):
                found.losses.insert(0, line)
            if found.look is not None and len(found.losses) == RECENT:
                break
    except UnreadableFile:  # not a file, or not ours to read
        return Newest()
    return found


def _rate(losses: Sequence[dict[str, Any]]) -> float | None:
    """Updates a second over the newest losses; of a single one those since the beginning."""
    first = losses[0] if len(losses) > 1 else {"step": 0, "seconds": 0.0}
    if not losses or not losses[-1]["seconds"] > first["seconds"]:
        return None
    rate: float = (losses[-1]["step"] - first["step"]) / (losses[-1]["seconds"] - first["seconds"])
    return rate or None


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return files.read_json(path)
    except UnreadableFile:  # or none there
        return None


def counts(runs: Sequence[RunStatus]) -> Iterator[tuple[str, int]]:
    """Yield each state that there is with its number of runs."""
    for state in STATES:
        if number := sum(run.state == state for run in runs):
            yield state, number
