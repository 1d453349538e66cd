"""Mackey-Glass: prediction of a chaotic series fifteen steps ahead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lrbench.checks import between
from lrbench.metrics import NRMSE
from lrbench.registry import register_task
from lrbench.tasks.series.base import SeriesTask
from lrbench.tasks.stream import Stream, integers

Array = NDArray[np.float64]

LENGTH = 5_000  # values of a series that are read
SUB_STEPS = 10  # Euler steps in a unit of time
DROPPED = 100  # values at the start, as in the experiments the task is from
START = 1.2
SHORTEST_DELAY = 5  # with a shorter one every series settles at x = 1: there is nothing to foretell
RANDOM_VALUES = 1 << 30  # that a uniform number may have
GENERATION_SEED = 0  # the data are the same for every run


@dataclass
class MackeyGlassConfig:
    """Settings of `mackey_glass`.

    horizon: how many steps ahead the answer lies. tau: the delay of the equation, in its unit of
    time. series: how many series there are.
    """

    name: str = "mackey_glass"
    horizon: int = 15
    tau: int = 17
    series: int = 128

    def __post_init__(self) -> None:
        between("task.horizon", self.horizon, 1, 1000)
        between("task.tau", self.tau, SHORTEST_DELAY, 1000)
        between("task.series", self.series, 4, 10_000)


@register_task(
    "mackey_glass",
    MackeyGlassConfig,
    "a chaotic series, 15 steps ahead (Chilkuri & Eliasmith 2021)",
)
class MackeyGlass(SeriesTask):
    """Mackey-Glass series x' = 0.2 x(t-17) / (1 + x(t-17)^10) - 0.1 x: from x(..t), x(t+15).

    128 series of 5,000 values, squashed by tanh(x - 1), their mean subtracted. The second half is
    the test split; of the first, the last eighth is for validation and the rest for training.

    Source: Chilkuri & Eliasmith 2021 (arXiv:2102.11417), section 4.2, after Voelker et al. 2019.
    The papers do not print how the series are made: this is the generator of the LMU experiments as
    far as it is known, with series, history and start of our own. The target lies in the future;
    some copies of that generator have input and target the other way round. The papers name no
    validation series: they are taken from the training half, so that the test half stays theirs.

    All series begin with nearly the same history and run in step for some hundred values: the mean
    training series, which sees nothing but the position, has an NRMSE of 0.10 over the first 50
    positions, 0.42 over 500 and 0.94 over all 5,000. Short lengths tell little here.
    """

    features = 1
    metric = NRMSE
    longest = LENGTH

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.class_names = (f"x(t+{config.horizon})",)
        half = config.series // 2
        kept = max(1, half // 8)
        self.first: dict[str, int] = {"train": 0, "validation": half - kept, "test": half}
        self.end: dict[str, int] = {"train": half - kept, "validation": half, "test": config.series}

    def count(self, split: str) -> int:
        return self.end[split] - self.first[split]

    def _values(self, split: str, rows: Tensor, start: int, stop: int) -> Tensor:
        whole = centred_series(self.config.series, self.config.tau, self.config.horizon)
        return whole[rows + self.first[split], start:stop]

    def _inputs(self, split: str, rows: Tensor, start: int, stop: int) -> Tensor:
        return self._values(split, rows, start, stop)[..., None]

    def _targets(self, split: str, rows: Tensor, start: int, stop: int, length: int) -> Tensor:
        ahead = int(self.config.horizon)
        return self._values(split, rows, start + ahead, stop + ahead)

    def baselines(self, length: int) -> dict[str, float]:
        """Foretell the mean of the training targets, and that nothing changes (persistence)."""
        known = torch.arange(self.count("train"))
        mean = self._targets("train", known, 0, length, length).double().mean()
        rows = torch.arange(self.count("test"))
        now = self._values("test", rows, 0, length).double()
        then = self._targets("test", rows, 0, length, length).double()

        def nrmse(error: Tensor) -> float:
            return float((error.square().sum() / then.square().sum()).sqrt())

        return {"mean": nrmse(then - mean), "persistence": nrmse(then - now)}


@lru_cache(maxsize=4)
def centred_series(series: int, tau: int, horizon: int) -> Tensor:
    """Return the series squashed and centred, (series, LENGTH + horizon) float32.

    The mean that is subtracted is that of the first LENGTH values of all series.
    """
    squashed = np.tanh(mackey_glass(series, LENGTH + horizon, tau) - 1)
    return torch.from_numpy((squashed - squashed[:, :LENGTH].mean()).astype(np.float32))


def mackey_glass(series: int, length: int, tau: int) -> Array:
    """Return solutions of the equation at unit steps, (series, length), after DROPPED others.

    Only + - x and / in float64, so the same bits everywhere: the equation is chaotic. What x was
    SUB_STEPS tau ago is known for that many steps ahead, and its part of them is computed at once.
    """
    delay = SUB_STEPS * tau
    stream = Stream.named(GENERATION_SEED, "mackey_glass", "history")
    uniform = integers(stream, 0, series, 0, delay, RANDOM_VALUES, "cpu").numpy().T / RANDOM_VALUES
    past: Array = START + 0.2 * (uniform - 0.5)
    x = np.full(series, START)
    steps = SUB_STEPS * (DROPPED + length)
    path = np.empty((steps, series))
    for first in range(0, steps, delay):
        drive = _production(past)[: steps - first]
        past = np.empty((delay, series))
        for step, part in enumerate(drive):
            past[step] = x
            x = x + (part - 0.1 * x) / SUB_STEPS
            path[first + step] = x
    return np.ascontiguousarray(path[SUB_STEPS - 1 :: SUB_STEPS][DROPPED:].T)


def _production(delayed: Array) -> Array:
    """Return 0.2 x / (1 + x^10)."""
    square = delayed * delayed
    fourth = square * square
    produced: Array = 0.2 * delayed / (1 + fourth * fourth * square)
    return produced
