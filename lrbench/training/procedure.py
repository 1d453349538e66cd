"""Procedures of protocols: training, examination, later scoring, and their cost.

The declaration of a protocol (lrbench/protocols/base.py) names its procedure, which is imported
here, when a run needs it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import torch

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.records import Baseline, Evaluation, Guessing, Horizon, SplitData
from lrbench.tasks import make_task
from lrbench.tasks.base import TaskBase
from lrbench.tasks.stream import Stream
from lrbench.training.examination import Kept
from lrbench.training.trial import Check, Trial

STRINGS = 1000  # for each length, where the user of `lrbench evaluate` says nothing


@dataclass(frozen=True)
class EvaluationRequest:
    """What `lrbench evaluate` is to score: lengths on so many strings, or splits; as typed.

    trees: instead of scores of splits, how the trees of so many strings follow the brackets.
    """

    lengths: str = ""
    strings: int | None = None
    splits: str = ""
    trees: int | None = None


class Procedure(ABC):
    """How one configuration is trained and scored under its protocol."""

    tasks: ClassVar[type[TaskBase]] = TaskBase  # the shape of tasks that it can train on
    hardens: ClassVar[bool] = False  # whether its trials heed lrbench/training/hardening.py

    def __init__(self, config: Config) -> None:
        self.config = config
        self.protocol = config.protocol

    @cached_property
    def task(self) -> Any:
        """The task; making it may need its data. One of `tasks`, once `validate` has passed."""
        return make_task(self.config.task)

    def takes(self, task: TaskBase) -> bool:
        """Whether it can train on a task: it names the protocol, or has the shape for it."""
        return self.protocol.name in task.protocols or isinstance(task, self.tasks)

    @abstractmethod
    def validate(self) -> None:
        """Raise UserError where the task has no such strings to train on or to test on."""

    @property
    @abstractmethod
    def updates(self) -> int:
        """How many updates a run has at most; UserError where the data that decide are not there.

        The same number as `steps` of the trial.
        """

    @property
    def epochs(self) -> int | None:
        """For how many epochs a run is trained, None where updates are what is counted."""
        return None

    @abstractmethod
    def batch_bytes(self) -> int:
        """Return what one update keeps in memory at least."""

    @abstractmethod
    def trial(self, seed: int, device: torch.device | str = "cpu") -> Trial:
        """Return the run with this seed, at its beginning."""

    @abstractmethod
    def examine(
        self, trial: Any, kept: Kept, check: Check
    ) -> tuple[list[Evaluation], dict[str, Horizon]]:
        """Score the checkpoint that each rule kept; return (rows, horizon of each rule)."""

    def tested(self) -> list[tuple[int, str, int]] | None:
        """Return what `examine` tests: (length, split, strings); None where nobody says.

        Of strings with a drawn length each only what is told of them together. A class with an
        `examine` of its own says anew what that tests.
        """
        return None

    @abstractmethod
    def levels(self, trial: Any, check: Check) -> tuple[list[Baseline], list[Guessing]]:
        """Measure what knows next to nothing, and what guessing would give under a rule."""

    @property
    def longest(self) -> dict[str, int]:
        """The longest length that each setting of the protocol asks for, where settings do."""
        return {}

    def data(self) -> dict[str, SplitData] | None:
        """Return what tells the data of a run from other data, by split; None if it is drawn."""
        return None

    def first_strings(self, data_seed: int) -> list[tuple[str, Stream, int, int]]:
        """Return what tells drawn strings from others: (name, stream, length, step) of some."""
        return []

    @abstractmethod
    def refuse(self, request: EvaluationRequest) -> None:
        """Raise UserError for a request that belongs to another kind of protocol."""

    @abstractmethod
    def evaluate(
        self, trial: Any, request: EvaluationRequest, which: str, check: Check, purpose: str
    ) -> list[Evaluation]:
        """Score a trial as it is; `which` is the rule that kept its weights.

        purpose: names the stream of fresh strings. Raises UserError for a length or split that the
        task does not have.
        """


def procedure_for(config: Config) -> Procedure:
    """Return how a configuration is trained and scored."""
    module, _, name = declared(config.protocol.name).procedure.partition(":")
    made: Procedure = getattr(import_module(module), name)(config)
    return made


def make_trial(config: Config, seed: int, device: torch.device | str = "cpu") -> Trial:
    """Return the run of a cell with this seed, at its beginning."""
    return procedure_for(config).trial(seed, device)


def parse_lengths(text: str, default: Iterable[int]) -> list[int]:
    """Return the lengths of a comma-separated text, `default` of none; UserError for no length."""
    if not text:
        return list(dict.fromkeys(default))
    lengths = []
    for part in text.replace("_", "").split(","):
        if not re.fullmatch(r"[1-9][0-9]{0,9}", part.strip()):
            raise UserError(
                f"--lengths '{text}': '{part}' is not a length; write 500,5003,100003", exit_code=2
            )
        lengths.append(int(part))
    return lengths
