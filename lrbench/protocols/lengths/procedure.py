"""The procedure of protocols with several training lengths: training, examination, evaluation."""

from __future__ import annotations

from typing import Any

import torch

from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.protocols.lengths.examination import (
    TRAIN_STRINGS,
    chance_levels,
    final_tests,
    lengths_in,
)
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.records import BY_LENGTH, Baseline, Evaluation, Guessing, Horizon
from lrbench.tasks.base import LabelledTask, TaskBase
from lrbench.tasks.stream import Stream
from lrbench.training.examination import Kept
from lrbench.training.hardening import Hardening
from lrbench.training.memory import NUMBER
from lrbench.training.trial import Check, model_for


class LengthsProcedure(Fan2024Procedure):
    """Training at a range of lengths; looks and tests over another range."""

    tasks = LabelledTask

    def takes(self, task: TaskBase) -> bool:
        protocol: Any = declared(self.protocol.name)
        return self.protocol.name in task.protocols or (
            isinstance(task, LabelledTask) and protocol.has(task.name)
        )

    def validate(self) -> None:
        task, protocol = self.task, self.protocol
        for key, span in self.spans.items():
            if not any(task.valid_length(length) for length in range(span[0], span[1] + 1)):
                raise UserError(
                    f"protocol.{key} {span}: task {task.name} has only {task.length_rule}\n"
                    f"the nearest below is {task.nearest_length(span[1])}"
                )
            self._refuse_without_nearest(key, span)
        if protocol.score == "sequence" and not task.by_position:
            raise UserError(
                f"protocol {protocol.name} scores strings that are right at every position; task"
                f" {task.name} is not scored there\nfor group: leave task.ask=all as it is"
            )
        if protocol.score == "sequence" and getattr(protocol.test, "mix", "step") == "row":
            raise UserError(
                "protocol.score=sequence is of strings of one length; protocol.test.mix=row draws"
                " one for each\nwrite protocol.test.mix=step, or protocol.score=pooled"
            )
        if task.averaged and protocol.ask == "last" != type(protocol).ask:
            raise UserError(
                f"protocol.ask=last trains on one answer a string; task {task.name} has several\n"
                "leave it out: all answers are trained on"
            )
        low, high = protocol.train_lengths
        if protocol.train_strings and protocol.mix == "step" and low < high:
            raise UserError(
                f"protocol.train_strings={protocol.train_strings} strings have a length each, and"
                " protocol.mix=step asks for one an update\nwrite protocol.mix=row"
            )
        self._refuse_interventions()
        if protocol.carry or protocol.state_noise:
            self._refuse_growing_state()

    @property
    def spans(self) -> dict[str, list[int]]:
        """The ranges of lengths that strings are drawn from, by setting."""
        protocol = self.protocol
        return {
            "train_lengths": protocol.train_lengths,
            "look.lengths": protocol.look.lengths,
            "band": protocol.band,
            "test.lengths": protocol.test.lengths,
        }

    @property
    def longest(self) -> dict[str, int]:
        spans = self.spans.items()
        return {f"protocol.{key}": self.task.nearest_length(span[1]) for key, span in spans}

    def _refuse_without_nearest(self, key: str, span: list[int]) -> None:
        """A length that the task does not have becomes the nearest below: there must be one."""
        task, shortest = self.task, span[0]
        if not any(task.valid_length(length) for length in range(shortest, 0, -1)):
            first = next(n for n in range(shortest, span[1] + 1) if task.valid_length(n))
            raise UserError(
                f"protocol.{key} {span}: task {task.name} has no strings as short as {shortest}; it"
                f" has {task.length_rule}\nbegin at {first}"
            )

    def _refuse_interventions(self) -> None:
        """A curriculum has to end within the run, and to find strings that may change."""
        protocol, (low, high) = self.protocol, self.protocol.train_lengths
        if protocol.curriculum > protocol.max_steps:
            raise UserError(
                f"protocol.curriculum={protocol.curriculum} is longer than the run,"
                f" protocol.max_steps={protocol.max_steps}: it would never train on strings of"
                f" {high}\nwrite protocol.curriculum={protocol.max_steps} or less"
            )
        if protocol.curriculum and protocol.train_strings:
            raise UserError(
                f"protocol.curriculum={protocol.curriculum} draws other lengths as it grows, and"
                f" protocol.train_strings={protocol.train_strings} keeps the same strings\n"
                "leave one of them out"
            )
        if protocol.carry and protocol.mix == "row" and low < high:
            raise UserError(
                f"protocol.carry={protocol.carry:g} would carry the state after the filler behind a"
                " short string: protocol.mix=row fills rows up to the longest\n"
                "write protocol.mix=step, or leave out protocol.carry"
            )

    def _refuse_growing_state(self) -> None:
        """States can be carried, or noisy, where each string has one of a fixed size."""
        with torch.device("meta"):
            model: Any = model_for(self.config, self.task, 0)
        if model.state_size is None:
            raise UserError(
                f"model {self.config.model.name} keeps all that it has read, and has no state of a"
                " fixed size\nleave out protocol.carry and protocol.state_noise"
            )
        hardening = Hardening(self.config.optim, model)
        if hardening:
            raise UserError(
                f"{hardening.setting} does not go with protocol.carry or protocol.state_noise\n"
                "leave one of them out"
            )

    def first_strings(self, data_seed: int) -> list[tuple[str, Stream, int, int]]:
        """The shortest and the longest of training, and of the tests."""
        train = (self.task.stream(data_seed, "train"), 1)
        named = [("train", self.protocol.train_lengths, train)]
        tested = self.protocol.test.lengths[1]
        key = () if self.protocol.test.mix == "row" else (self.task.nearest_length(tested),)
        test = (self.task.stream(data_seed, "test", *key), 0)
        return [
            (name, stream, length, step)
            for name, span, (stream, step) in [*named, ("test", [tested], test)]
            for length in sorted({self.task.nearest_length(length) for length in span})
        ]

    def batch_bytes(self) -> int:
        """Symbols, each layer's output, logits, gradients, of the longest strings."""
        length = self.task.nearest_length(self.protocol.train_lengths[1])
        symbols = self.protocol.batch_size * self.task.positions(length)
        model: Any = self.config.model
        floats = 2 * model.layers * model.width + 2 * self.task.num_classes
        return int(symbols * (2 * 8 + NUMBER * floats))

    def trial(  # type: ignore[override]
        self, seed: int, device: torch.device | str = "cpu"
    ) -> LengthsTrial:
        return LengthsTrial(self.config, seed, device)

    def examine(  # type: ignore[override]
        self, trial: LengthsTrial, kept: Kept, check: Check
    ) -> tuple[list[Evaluation], dict[str, Horizon]]:
        return final_tests(trial, kept, check)

    def tested(self) -> list[tuple[int, str, int]] | None:
        test, trained = self.protocol.test, self.protocol.train_lengths[1]
        found = []
        if trained != test.lengths[1]:
            found.append((trained, "train_length", min(test.strings, TRAIN_STRINGS)))
        n = test.strings
        if test.mix == "step":
            by_length = [(length, self._there(length, n)) for length in lengths_in(self.task, test)]
            found += [(length, BY_LENGTH, strings) for length, strings in by_length]
            n = sum(strings for _, strings in by_length)
        return [*found, (test.lengths[1], "test", n)]

    def levels(  # type: ignore[override]
        self, trial: LengthsTrial, check: Check
    ) -> tuple[list[Baseline], list[Guessing]]:
        return chance_levels(trial, check)

    @property
    def usual_lengths(self) -> list[int]:
        ends = (self.protocol.train_lengths[1], self.protocol.test.lengths[1])
        return [self.task.nearest_length(length) for length in ends]
