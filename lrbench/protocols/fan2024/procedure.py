"""The procedure of `fan2024`: training at one length, scoring at any length."""

from __future__ import annotations

from typing import Any

import torch

from lrbench.errors import UserError
from lrbench.protocols.fan2024.examination import (
    baselines_at,
    chance_levels,
    final_tests,
    test_plan,
)
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.records import FURTHER, Baseline, Evaluation, Guessing, Horizon, evaluation
from lrbench.statistics import wilson
from lrbench.tasks.base import SampledTask
from lrbench.tasks.baselines import best_baseline
from lrbench.tasks.stream import Stream
from lrbench.training.examination import Kept
from lrbench.training.memory import NUMBER, PeakMemory
from lrbench.training.procedure import (
    STRINGS,
    EvaluationRequest,
    Procedure,
    parse_lengths,
)
from lrbench.training.scoring import score, symbols_of
from lrbench.training.trial import Check


class Fan2024Procedure(Procedure):
    """Training at one length; looks, tests and evaluations at others."""

    tasks = SampledTask
    hardens = True

    def validate(self) -> None:
        task, protocol = self.task, self.protocol
        lengths = [("train_length", protocol.train_length)]
        lengths += [("test_lengths", length) for length in protocol.test_lengths]
        for key, length in lengths:
            self._refuse_length(f"protocol.{key} {length}", length)
        if task.averaged and protocol.supervision == "last":
            raise UserError(
                f"protocol.supervision=last trains on one answer a string; task {task.name} has"
                " several\nleave it out: all answers are trained on"
            )
        for length in [*protocol.further_lengths, protocol.band[1]]:
            task.nearest_length(length)

    @property
    def updates(self) -> int:
        most: int = self.protocol.max_steps
        return most

    @property
    def longest(self) -> dict[str, int]:
        protocol = self.protocol
        lengths = {
            "protocol.train_length": protocol.train_length,
            "protocol.test_lengths": max(protocol.test_lengths),
            "protocol.further_lengths": max(protocol.further_lengths, default=0),
            "protocol.band": protocol.band[1],
        }
        return {key: self.task.nearest_length(one) for key, one in lengths.items() if one}

    def batch_bytes(self) -> int:
        """Symbols, each layer's output, logits, gradients."""
        symbols = self.protocol.batch_size * self.task.positions(self.protocol.train_length)
        model: Any = self.config.model
        floats = 2 * model.layers * model.width + 2 * self.task.num_classes
        return int(symbols * (2 * 8 + NUMBER * floats))  # tokens and targets are int64

    def trial(self, seed: int, device: torch.device | str = "cpu") -> LengthTrial:
        return LengthTrial(self.config, seed, device)

    def examine(
        self, trial: LengthTrial, kept: Kept, check: Check
    ) -> tuple[list[Evaluation], dict[str, Horizon]]:
        return final_tests(trial, kept, check)

    def tested(self) -> list[tuple[int, str, int]] | None:
        plan = test_plan(self.task, self.protocol)
        return [(length, split, self._there(length, n)) for length, split, n in plan]

    def _there(self, length: int, n: int) -> int:
        """So many test strings of a length, or all where there are fewer."""
        available = self.task.available(self.task.stream(0, "test", length))
        return n if available is None else min(n, int(available))

    def levels(self, trial: LengthTrial, check: Check) -> tuple[list[Baseline], list[Guessing]]:
        return chance_levels(trial, check)

    def first_strings(self, data_seed: int) -> list[tuple[str, Stream, int, int]]:
        task, protocol = self.task, self.protocol
        tests = [
            ("test", task.stream(data_seed, "test", length), length, 0)
            for length in protocol.test_lengths
        ]
        return [("train", task.stream(data_seed, "train"), protocol.train_length, 1), *tests]

    def refuse(self, request: EvaluationRequest) -> None:
        if request.splits or request.trees is not None:
            option = "--splits" if request.splits else "--trees"
            raise UserError(
                f"{option} does not go with this run: {self.config.task.name} draws its strings,"
                " at any length\nwrite --lengths 500,5003,100003",
                exit_code=2,
            )

    def evaluate(
        self,
        trial: LengthTrial,
        request: EvaluationRequest,
        which: str,
        check: Check,
        purpose: str,
    ) -> list[Evaluation]:
        lengths = parse_lengths(request.lengths, self.usual_lengths)
        for length in lengths:
            self._refuse_length(f"--lengths {length}", length)
        n = request.strings or STRINGS
        tests = [(trial.stream(purpose, length), length, n) for length in lengths]
        check(planned=symbols_of(trial.task, tests))
        return [_scored_at(trial, length, n, which, check, purpose) for length in lengths]

    @property
    def usual_lengths(self) -> list[int]:
        """What is evaluated where nobody names a length."""
        return [self.protocol.train_length, *self.protocol.test_lengths]

    def _refuse_length(self, given: str, length: int) -> None:
        task = self.task
        if not task.valid_length(length):
            raise UserError(
                f"{given}: task {task.name} has only {task.length_rule}\n"
                f"the nearest below is {task.nearest_length(length)}"
            )


def _scored_at(
    trial: LengthTrial, length: int, strings: int, which: str, check: Check, purpose: str
) -> Evaluation:
    """Score a trial, as it is, on the strings of a purpose; `chance` is the best baseline there."""
    stream, metric = trial.stream(purpose, length), trial.task.metric
    with PeakMemory(trial.device) as peak:
        result = score(
            trial.model,
            trial.task,
            stream,
            length,
            strings,
            trial.device,
            by_position=trial.task.by_position,
            check=check,
        )
    chance = best_baseline(baselines_at(trial, length), metric)
    row = evaluation(
        length,
        FURTHER,
        metric.name,
        result.value,
        result.n,
        interval=list(wilson(result.correct, result.n)) if metric.counts else None,
        which=which,
        kind="test",
        chance=chance["value"],
        peak_mib=round(peak.mib, 1),
        seconds=round(result.seconds, 3),
    )
    if (counts := result.positions) is not None and result.averaged:
        row["exact"] = counts.sequence
    elif counts is not None:
        row["token"], row["sequence"] = counts.token, counts.sequence
        row["prefix"] = list(counts.curve(length))
    return row
