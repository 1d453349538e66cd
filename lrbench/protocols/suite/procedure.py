"""The procedure of `suite_v1`: training on lengths 3 to 40, tests on a grid of lengths.

Test strings are drawn with a data seed of their own, so every run of a task meets the same ones.
"""

from __future__ import annotations

from typing import Any

import torch

from lrbench.protocols.fan2024.examination import (
    at_every_position,
    baselines_at,
    horizon_of,
)
from lrbench.protocols.lengths.examination import looks_of
from lrbench.protocols.lengths.procedure import LengthsProcedure
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.protocols.suite.strings import grid_lengths, string_hashes
from lrbench.records import (
    FURTHER,
    Baseline,
    Evaluation,
    Guessing,
    Horizon,
    SplitData,
    evaluation,
)
from lrbench.tasks.base import SampledTask
from lrbench.tasks.stream import Stream
from lrbench.training.examination import Kept, Section, each_kept
from lrbench.training.scoring import Score, score, symbols_of
from lrbench.training.trial import Check

SHARED = ("test", "baseline")  # purposes whose strings do not depend on the run's own seeds
SHOWN = 500  # the length whose row is the test; the others are further ones


class SuiteTrial(LengthsTrial):
    """A model in training on lengths 3 to 40; its tests have strings of their own seed."""

    def stream(self, *purpose: str | int) -> Stream:
        if purpose[0] not in SHARED:
            return super().stream(*purpose)
        stream: Stream = self.task.stream(self.config.protocol.test.data_seed, *purpose)
        return stream


class SuiteProcedure(LengthsProcedure):
    """Training at a range of lengths; tests at each length of a grid."""

    @property
    def spans(self) -> dict[str, list[int]]:
        """Each tested length becomes the nearest below, so the tests begin with that, if any."""
        has, tested = self.task.valid_length, self.protocol.test.lengths
        shortest = max(filter(has, range(1, min(tested) + 1)), default=min(tested))
        return super().spans | {"test.lengths": [shortest, max(tested)]}

    def trial(  # type: ignore[override]
        self, seed: int, device: torch.device | str = "cpu"
    ) -> SuiteTrial:
        return SuiteTrial(self.config, seed, device)

    def examine(  # type: ignore[override]
        self, trial: SuiteTrial, kept: Kept, check: Check
    ) -> tuple[list[Evaluation], dict[str, Horizon]]:
        task, test = trial.task, trial.config.protocol.test
        tests = [
            (trial.stream("test", length), length, test.strings_at(length))
            for length in grid_lengths(task, test)
        ]
        section = Section("tests", symbols_of(task, tests), lambda: _examine(trial, check))
        return each_kept(trial, kept, [section], looks_of, check)

    def tested(self) -> list[tuple[int, str, int]] | None:
        test, splits = self.protocol.test, _splits(self.task, self.protocol)
        return [
            (length, splits.get(length, FURTHER), test.strings_at(length))
            for length in grid_lengths(self.task, test)
        ]

    def levels(  # type: ignore[override]
        self, trial: SuiteTrial, check: Check
    ) -> tuple[list[Baseline], list[Guessing]]:
        """Measure the baselines at every tested length. No rule here takes a best of looks."""
        found: list[Baseline] = []
        for length in grid_lengths(trial.task, trial.config.protocol.test):
            check()
            found += baselines_at(trial, length)
        return found, []

    def first_strings(self, data_seed: int) -> list[tuple[str, Stream, int, int]]:
        """Those of training; of the tests `data` tells all."""
        stream = self.task.stream(data_seed, "train")
        ends = {self.task.nearest_length(length) for length in self.protocol.train_lengths}
        return [("train", stream, length, 1) for length in sorted(ends)]

    def data(self) -> dict[str, SplitData]:
        return string_hashes(self.task, self.protocol.test)

    @property
    def usual_lengths(self) -> list[int]:
        return grid_lengths(self.task, self.protocol.test)


def _examine(trial: SuiteTrial, check: Check) -> tuple[list[Evaluation], Horizon | None]:
    """Return the rows of the tests, and the horizon on the grid."""
    task, protocol = trial.task, trial.config.protocol
    lengths = grid_lengths(task, protocol.test)
    scores = [
        score(
            *(trial.model, task, trial.stream("test", length), length),
            *(protocol.test.strings_at(length), trial.device),
            by_position=task.by_position,
            check=check,
        )
        for length in lengths
    ]
    splits = _splits(task, protocol)
    rows = [_row(one, splits) for one in scores]
    rows += at_every_position(scores, lengths[-1])
    if len(lengths) == 1:
        return rows, None
    return rows, horizon_of(trial, scores, check)


def _splits(task: SampledTask, protocol: Any) -> dict[int, str]:
    """Return what the row of a length is called where that is no further one."""
    trained = task.nearest_length(protocol.train_lengths[1])
    return {trained: "train_length", task.nearest_length(SHOWN): "test"}


def _row(one: Score, splits: dict[int, str]) -> Evaluation:
    return evaluation(
        *(one.length, splits.get(one.length, FURTHER), "accuracy", one.value, one.n),
        kind="test",
        seconds=round(one.seconds, 3),
    )
