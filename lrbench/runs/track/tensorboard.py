"""A run as TensorBoard reads it: event files in the folder `tensorboard` of the run.

They are written anew each time, from the first line of metrics.jsonl on, so that no step is there
twice, even after a kill.
"""

from __future__ import annotations

import json

from torch.utils.tensorboard import SummaryWriter

from lrbench.runs.track.points import TrackedPoint
from lrbench.runs.track.tracker import TrackedRun, Tracker

EVENTS = "events.out.tfevents.*"
FLUSH_SECONDS = 10


class TensorBoard(Tracker):
    """Scalars by update, and the settings as text."""

    name = "tensorboard"

    def __init__(self, run: TrackedRun, afresh: bool = False) -> None:
        super().__init__(run)
        folder = run.folder / "tensorboard"
        for path in folder.glob(EVENTS):
            path.unlink()
        self._writer = SummaryWriter(str(folder), flush_secs=FLUSH_SECONDS)
        settings = json.dumps(run.settings, indent=2).replace("\n", "\n    ")
        self._writer.add_text("settings", f"    {settings}")  # markdown: a block of code

    def log(self, point: TrackedPoint) -> None:
        for name, value in point.values.items():
            self._writer.add_scalar(name, value, point.step)

    def close(self, ended: bool) -> None:
        self._writer.close()


TRACKER = TensorBoard
