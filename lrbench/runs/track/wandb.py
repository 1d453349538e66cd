"""A run in Weights & Biases: its server, or with WANDB_MODE=offline the run's folder `wandb`.

The project is lrbench unless WANDB_PROJECT names another.
"""

from __future__ import annotations

import os

import wandb

from lrbench.runs.track.points import TrackedPoint
from lrbench.runs.track.tracker import PROJECT, Remembering, TrackedRun


class WeightsAndBiases(Remembering):
    """Metrics by update; a run that is taken up goes on under its id."""

    name = "wandb"

    def __init__(self, run: TrackedRun, afresh: bool = False) -> None:
        super().__init__(run, afresh)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=self.id,
            name=run.name,
            group=run.cell,
            config=run.settings,
            dir=str(run.folder),
            resume="allow",
            reinit="create_new",  # a group has several runs open at once
            settings=wandb.Settings(console="off", silent=True),
        )

    def log(self, point: TrackedPoint) -> None:
        self._run.log(point.values, step=point.step)

    def close(self, ended: bool) -> None:
        self._run.finish(exit_code=0 if ended else 1)


TRACKER = WeightsAndBiases
