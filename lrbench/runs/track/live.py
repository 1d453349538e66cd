"""Trackers of a group while it trains; a failing one is reported once and ends no run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from lrbench.console import messages
from lrbench.records import Result
from lrbench.runs.folder import files
from lrbench.runs.folder.run import Run
from lrbench.runs.track.points import point_of, points_of, scores_of
from lrbench.runs.track.tracker import TrackedRun, Tracker, open_tracker


class LiveTracking:
    """The trackers of runs, by seed. Use it as a context: at its end all of them are closed.

    name: what was typed after `track=`; None for none.
    """

    def __init__(self, name: str | None, runs: Mapping[int, Run]) -> None:
        self.name, self.runs = name, runs
        self._open: dict[int, Tracker] = {}

    def __enter__(self) -> LiveTracking:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for seed in list(self._open):
            self._close(seed, ended=False)

    def begin(self) -> None:
        """Open them; each is given first what the files of its run say already."""
        if self.name is not None:
            for seed in self.runs:
                self._try(seed, partial(self._begin, seed))

    def recorded(self, seed: int, line: Mapping[str, Any]) -> None:
        """Pass a new line of a run's metrics.jsonl on."""
        tracker, point = self._open.get(seed), point_of(line)
        if tracker is not None and point is not None:
            self._try(seed, partial(tracker.tell, [point]))

    def ended(self, seed: int, result: Result) -> None:
        """Pass the scores of a run on, and close its tracker: its folder may be moved after."""
        tracker = self._open.get(seed)
        if tracker is not None:
            self._try(seed, partial(tracker.tell, [scores_of(result)]))
            self._close(seed, ended=True)

    def _begin(self, seed: int) -> None:
        run = self.runs[seed]
        tracker = open_tracker(str(self.name), tracked_run(run))
        self._open[seed] = tracker
        tracker.tell(points_of(files.read_lines(run.metrics), None))

    def _close(self, seed: int, ended: bool) -> None:
        tracker = self._open.get(seed)
        if tracker is not None:
            self._try(seed, partial(tracker.close, ended))
            self._open.pop(seed, None)

    def _try(self, seed: int, do: Callable[[], object]) -> None:
        """Do something with a tracker; where it fails, say so and go on without that one."""
        try:
            do()
        except Exception as error:  # of any package, or of its network: never the run's end
            self._open.pop(seed, None)
            text = (
                f"tracking by {self.name} failed and is left: {type(error).__name__}: {error}"
                f" (later: lrbench export {self.runs[seed].final_folder} --to {self.name})"
            )
            messages().print(f"seed {seed}: {text}", markup=False)
            self.runs[seed].log(text)


def tracked_run(run: Run) -> TrackedRun:
    """Return what a tracker is told of a run that trains."""
    config, cell = run.cell.config, run.cell
    name = f"{config.task.name} {config.model.name} {cell.fingerprint}"
    settings = {**cell.settings, "seed": run.seed, "fingerprint": cell.fingerprint}
    return TrackedRun(run.folder, name, run.seed, settings)
