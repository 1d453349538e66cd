"""The ledger of a sweep: the ends of its runs, read from their folders, not from return values.

A killed worker returns nothing, and another sweep may do some of the work; result.json and
failure.json are there in either case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lrbench.records import Result
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.sweeps.plan.plan import Plan, PlannedRun, stamp


@dataclass
class End:
    """How a run ended, and why it failed.

    `status` is finished, diverged, skipped (finished before), elsewhere (finished by another
    process) or failed. `seconds`: of its training and, as far as it says, its examination.
    """

    run: PlannedRun
    status: str
    result: Result | None = None
    message: str = ""
    log: Path | None = None
    seconds: float | None = None


class Ledger:
    """Ends of runs, each told once to `on_end`. Safe to call from several threads."""

    def __init__(self, plan: Plan, on_end: Callable[[End, int, int], None]) -> None:
        self.ends: dict[PlannedRun, End] = {
            run: End(run, "skipped", run.result) for run in plan.finished
        }
        self.open = list(plan.to_do)
        self.total = len(plan.to_do)
        self._on_end = on_end
        self._lock = threading.Lock()

    def look(self) -> None:
        """See what has ended since the last look."""
        with self._lock:
            for run in list(self.open):
                end = _read(run)
                if end is not None:
                    self._enter(end)

    def fail(self, run: PlannedRun, message: str) -> None:
        """Enter a failure that left no trace in the run's folder, unless the run has ended."""
        self.look()
        with self._lock:
            if run in self.open:
                self._enter(End(run, "failed", message=message, log=_log(run)))

    def done_elsewhere(self, run: PlannedRun) -> None:
        """Note that another process trained a run that has ended well."""
        end = self.ends.get(run)
        if end is not None and end.status == "finished":
            end.status = "elsewhere"

    def _enter(self, end: End) -> None:
        self.open.remove(end.run)
        self.ends[end.run] = end
        self._on_end(end, self.total - len(self.open), self.total)


class Lookout:
    """Context in which a thread looks at the folders, and calls `on_tick`, every moment."""

    def __init__(self, ledger: Ledger, on_tick: Callable[[], None], seconds: float = 0.3) -> None:
        self.ledger, self.on_tick, self.seconds = ledger, on_tick, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lookout", daemon=True)

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()
        self.ledger.look()

    def _watch(self) -> None:
        pause = self.seconds
        while not self._over.wait(pause):
            self.on_tick()
            began = time.monotonic()
            self.ledger.look()
            # a slow network drive with thousands of runs is not asked all the time
            pause = max(self.seconds, 10 * (time.monotonic() - began))


def seconds_of(result: Result) -> float | None:
    """Return what training and examining took; None where a result does not say."""
    trained = result.get("train_seconds")
    return None if trained is None else trained + result.get("examination_seconds", 0.0)


def _read(run: PlannedRun) -> End | None:
    now, force = stamp(run.run, "result.json"), run.cell.config.force
    if not force and run.run.swap_was_cut_off:
        now = None  # an old result, until the run itself puts the new one in its place
    if now is not None and (now != run.old_result or not force):
        result = run.run.result()
        if result is not None:
            return End(run, result["status"], result, seconds=seconds_of(result))
    if stamp(run.run, "failure.json", "new") not in (None, run.old_failure):
        return _failed(run)
    return None


def _failed(run: PlannedRun) -> End | None:
    try:
        failure = files.read_json(run.run.folder / "failure.json")
    except UnreadableFile:
        return None
    message = f"{failure.get('type')}: {failure.get('error')} (update {failure.get('step')})"
    return End(run, "failed", message=message, log=_log(run))


def _log(run: PlannedRun) -> Path | None:
    path = run.run.folder / "run.log"
    return path if path.exists() else None
