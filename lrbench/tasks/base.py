"""What a task is: labelled strings, and what a model and a protocol must know of them.

Three shapes: a `Task` generates its strings and knows their exact answers; a `SeriesTask`
(series.py) has a fixed set of series, of which strings are the beginnings; a `CorpusTask`
(corpus/task.py) has strings of many lengths in splits. The first two are drawn in batches of one
length, whole or piece by piece: `SampledTask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.metrics import ACCURACY, Metric
from lrbench.registry import DEFAULT_PROTOCOL
from lrbench.tasks.machine import Machine
from lrbench.tasks.stream import Stream

IGNORE = -100  # the target where nothing is asked; torch's cross_entropy skips it by default

Device = torch.device | str
Carry = tuple[Tensor, ...]


@dataclass(frozen=True)
class Batch:
    """Strings with their answers.

    tokens and targets are (B, T) int64, with targets `IGNORE` where nothing is asked; lengths is
    (B,) int64. Of a signal, tokens are (B, T, F) float32; where a number is asked for, so are
    targets (B, T).
    """

    tokens: Tensor
    targets: Tensor
    lengths: Tensor


class TaskBase(ABC):
    """What all tasks have: a name, symbols or numbers to read, classes or numbers to answer.

    A task states `vocabulary` and `class_names` in its `__init__`. Raise `version` whenever the
    strings or answers of a configuration change. `features` > 0 says that inputs are that many
    numbers a position, not symbols; `one_answer` that a string has one answer, for models that read
    it whole (encoders), and `sides` how many strings one answer is about; `protocols` how models
    can be trained on it, the usual way first.
    """

    version: ClassVar[int] = 1
    metric: ClassVar[Metric] = ACCURACY
    features: ClassVar[int] = 0
    one_answer: ClassVar[bool] = False
    sides: ClassVar[int] = 1
    protocols: ClassVar[tuple[str, ...]] = (DEFAULT_PROTOCOL,)

    name: str
    vocabulary: tuple[str, ...]  # printable symbols; index = token id
    class_names: tuple[str, ...]  # printable answers; index = class

    def __init__(self, config: Any) -> None:
        self.config = config
        self.name = config.name

    @property
    def num_classes(self) -> int:
        """How many classes an answer may be; 1 where it is a number."""
        return len(self.class_names)

    def stream(self, data_seed: int, *purpose: str | int) -> Stream:
        """Return the stream of a data seed and a purpose, such as "train" or ("test", 500)."""
        return Stream.named(data_seed, self.name, *purpose)

    def machine(self) -> Machine | None:
        """Return the task as a finite automaton; None where it has none, or states none."""
        return None

    def drawn(self) -> dict[str, Any] | None:
        """Return what was drawn of the task itself, for result.json; None where nothing was."""
        return None

    def describe_string(self, tokens: Sequence[int]) -> str:
        """Return the string as a person would write it."""
        return " ".join(self.vocabulary[token] for token in tokens)


class SampledTask(TaskBase):
    """A task with strings of every valid length, in batches, whole or piece by piece.

    `fixed` says that there are only so many, and that a test at the length of training is a test;
    `by_position` that tests also count the answers at every position.
    """

    length_rule: ClassVar[str] = "lengths >= 1"
    fixed: ClassVar[bool] = False
    by_position: bool = False

    @abstractmethod
    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        """Yield what `segments` yields, for arguments that were checked."""

    def available(self, stream: Stream) -> int | None:
        """Return how many rows a stream has, None where it never ends."""
        return None

    def known_baselines(self, length: int) -> tuple[dict[str, float], int] | None:
        """Return ({baseline: metric}, strings) where the data are fixed; None: to be measured."""
        return None

    def valid_length(self, length: int) -> bool:
        """Whether strings of this length exist (`length_rule` says which do)."""
        return length >= 1

    def nearest_length(self, length: int) -> int:
        """Return the largest valid length <= `length`; UserError if there is none."""
        for shorter in range(length, 0, -1):
            if self.valid_length(shorter):
                return shorter
        raise UserError(
            f"task {self.name}: no strings of length <= {length}; it has {self.length_rule}"
        )

    def sample(self, stream: Stream, step: int, batch: int, length: int, device: Device) -> Batch:
        """Draw `batch` strings of `length`, a pure function of the arguments.

        Rows depend on nothing but their number: `stream.from_row(n)` gives those after the first n.
        Raises UserError for a length the task does not have, or an empty batch.
        """
        return next(self.segments(stream, batch, length, length, device, step))

    def samples(
        self, stream: Stream, steps: range, batch: int, length: int, device: Device
    ) -> list[Batch]:
        """Draw what `sample` draws at each of `steps`."""
        return [self.sample(stream, step, batch, length, device) for step in steps]

    def segments(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int = 0
    ) -> Iterator[Batch]:
        """Yield the strings of `sample` piece by piece, `segment` positions each, the last fewer.

        Memory does not grow with `length`. Joined, the pieces equal `sample` exactly; `lengths` of
        a piece is the piece's own. Raises UserError as `sample` does, before the first piece.
        """
        self._check(batch, length, segment)
        return self._pieces(stream, batch, length, segment, device, step)

    def _check(self, batch: int, length: int, segment: int) -> None:
        if not self.valid_length(length):
            fix = f"\nuse {self.nearest_length(length)}, the nearest below" if length > 1 else ""
            raise UserError(
                f"task {self.name}: no strings of length {length}; it has {self.length_rule}{fix}"
            )
        for what, value in (("batch", batch), ("segment", segment)):
            if value < 1:
                raise UserError(f"task {self.name}: {what} must be at least 1, not {value}")


class Task(SampledTask):
    """A labelled language: random strings over a vocabulary and a class for each asked position.

    A task states its `_tokens`, `_answer` and `oracle`. `draws_ahead` says that `_tokens` also
    takes a range of steps, as `integers` does, and returns the rows of all of them.
    """

    draws_ahead: ClassVar[bool] = False

    @abstractmethod
    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Return the answer at each position, slowly and obviously right, `IGNORE` if not asked."""

    @abstractmethod
    def _tokens(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        """Draw positions start..stop-1 of `rows` strings: (rows, stop - start) int64."""

    @abstractmethod
    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Answer a (B, S) piece that begins at position `start`.

        `carry` is what the piece before it returned, None at the start of a string.
        """

    def samples(
        self, stream: Stream, steps: range, batch: int, length: int, device: Device
    ) -> list[Batch]:
        """Draw what `sample` draws at each of `steps`, together where the task `draws_ahead`."""
        if not self.draws_ahead:
            return super().samples(stream, steps, batch, length, device)
        self._check(batch, length, length)
        tokens = self._tokens(stream, steps, batch, 0, length, device)
        drawn = tokens, self.answers(tokens), torch.full((len(tokens),), length, device=device)
        return [Batch(*one) for one in zip(*(part.split(batch) for part in drawn), strict=True)]

    def answers(self, tokens: Tensor) -> Tensor:
        """Return the targets (B, T) of given whole strings (B, T)."""
        return self._answer(tokens, 0, None)[0]

    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        carry: Carry | None = None
        for start in range(0, length, segment):
            stop = min(start + segment, length)
            tokens = self._tokens(stream, step, batch, start, stop, device)
            targets, carry = self._answer(tokens, start, carry)
            lengths = torch.full((batch,), stop - start, device=device)
            yield Batch(tokens, targets, lengths)
