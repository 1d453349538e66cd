"""Base classes of tasks: labelled strings, and what a model and a protocol must know of them.

There are three kinds. A `LabelledTask` generates its strings and knows their exact answers, piece
by piece (`Task`) or whole (`WholeTask`). A `SeriesTask` (series/base.py) has a fixed set of series,
of which strings are the beginnings. A `CorpusTask` (corpus/task.py) has strings of many lengths in
splits. The first two are drawn in batches of one length: `SampledTask`.
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
from lrbench.tasks.machine import Drawing, Machine
from lrbench.tasks.stream import Stream

IGNORE = -100  # the target where nothing is asked; torch's cross_entropy skips it by default

Device = torch.device | str
Carry = tuple[Tensor, ...]


@dataclass(frozen=True)
class Batch:
    """Strings with their answers.

    tokens and targets are (B, T) int64, with targets `IGNORE` where nothing is asked; lengths is
    (B,) int64, in positions. Of a signal, tokens are (B, T, F) float32; where a number is asked
    for, so are targets (B, T). `scored` (B, T) bool says which answers count in tests: some tasks
    train on what they do not score. None: all that are asked for.
    """

    tokens: Tensor
    targets: Tensor
    lengths: Tensor
    scored: Tensor | None = None

    @property
    def counted(self) -> Tensor:
        """The positions (B, T) whose answers count in tests."""
        return self.targets != IGNORE if self.scored is None else self.scored

    def cut(self, start: int, stop: int) -> Batch:
        """Return the piece of positions start..stop-1, each row with that many."""
        scored = None if self.scored is None else self.scored[:, start:stop]
        lengths = torch.full_like(self.lengths, stop - start)
        return Batch(self.tokens[:, start:stop], self.targets[:, start:stop], lengths, scored)


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

    def spelled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return symbols and answers as a person would write them; files keep their plain names."""
        return self.vocabulary, self.class_names

    def describe_string(self, tokens: Sequence[int]) -> str:
        """Return the string as a person would write it."""
        symbols, _ = self.spelled()
        return " ".join(symbols[token] for token in tokens)


class SampledTask(TaskBase):
    """A task with strings of every valid length, in batches, whole or piece by piece.

    `fixed` says that there are only so many, and that a test at the length of training is a test;
    `by_position` that tests also count the answers at every position; `averaged` that accuracy is
    the share of scored positions that are right, not of final answers; `uniform_walks` that its
    strings are walks over `machine()` from the start, all edges of a state equally likely.
    """

    length_rule: ClassVar[str] = "lengths >= 1"
    fixed: ClassVar[bool] = False
    by_position: bool = False
    averaged: ClassVar[bool] = False
    uniform_walks: ClassVar[bool] = False

    @property
    def uniform_letters(self) -> bool:
        """Whether each symbol is drawn uniformly among those that may come in its place."""
        return self.uniform_walks

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

    def positions(self, length: int) -> int:
        """How many positions a string of `length` takes.

        `length` is the paper's: that of what is to be read. Positions where nothing is read and
        answers are given (query, slots) come after it.
        """
        return length

    def last_read(self, length: int) -> int:
        """The place, from 0, of the last symbol that is no query."""
        return min(length, self.positions(length)) - 1

    def drawing(self, length: int) -> Drawing | None:
        """Return how strings of a valid length walk over `machine()`, or None.

        Baselines are exact for a task that returns it. By default a task does if `uniform_walks`.
        """
        machine = self.machine() if self.uniform_walks else None
        if machine is None:
            return None
        stretches = ((self.positions(length), machine.evenly()),)
        return Drawing(stretches, self.last_read(length))

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
        whole = self.positions(length)
        return next(self.segments(stream, batch, length, whole, device, step))

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


class LabelledTask(SampledTask):
    """A labelled language: random strings over a vocabulary and a class for each asked position.

    A task states its `oracle`; its strings come from `Task`, piece by piece, or `WholeTask`.
    `draws_ahead` says that `_strings` also takes a range of steps, as `integers` does, and returns
    the rows of all of them.
    """

    draws_ahead: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    @abstractmethod
    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Return the answer at each position, slowly and obviously right, `IGNORE` if not asked."""

    @abstractmethod
    def _strings(
        self, stream: Stream, step: int | range, rows: int, length: int, device: Device
    ) -> Tensor:
        """Draw `rows` whole strings of `length`: (rows, positions) int64."""

    @abstractmethod
    def _targets(self, tokens: Tensor) -> Tensor:
        """Return the targets (B, T) of whole strings (B, T)."""

    def of_lengths(
        self, stream: Stream, step: int, lengths: Sequence[int], device: Device
    ) -> Batch:
        """Draw a row of each of `lengths`: row r is row r of `sample` at its length.

        All rows take the positions of the longest. Nothing is asked behind a row's own positions:
        ordinary symbols stand there, or symbol 0; a causal model cannot tell at what is asked
        before. Raises UserError as `sample` does.
        """
        rows, longest = len(lengths), max(map(self.positions, lengths))
        tokens = torch.zeros(rows, longest, dtype=torch.int64, device=device)
        targets, own = torch.full_like(tokens, IGNORE), torch.zeros_like(tokens[:, 0])
        counted = torch.zeros_like(tokens, dtype=torch.bool)
        for length in sorted(set(lengths)):
            mine = [row for row, its in enumerate(lengths) if its == length]
            drawn = self.sample(stream.only(mine), step, len(mine), length, device)
            width, here = drawn.tokens.shape[1], torch.tensor(mine, device=device)
            tokens[here, :width], targets[here, :width] = drawn.tokens, drawn.targets
            counted[here, :width], own[here] = drawn.counted, width
        return Batch(tokens, targets, own, counted)

    def samples(
        self, stream: Stream, steps: range, batch: int, length: int, device: Device
    ) -> list[Batch]:
        """Draw what `sample` draws at each of `steps`, together where the task `draws_ahead`."""
        if not self.draws_ahead:
            return super().samples(stream, steps, batch, length, device)
        self._check(batch, length, length)
        drawn = self._labelled(self._strings(stream, steps, batch, length, device))
        parts = [drawn.tokens, drawn.targets, drawn.lengths]
        parts += [] if drawn.scored is None else [drawn.scored]
        return [Batch(*one) for one in zip(*(part.split(batch) for part in parts), strict=True)]

    def answers(self, tokens: Tensor) -> Tensor:
        """Return the targets (B, T) of given whole strings (B, T)."""
        return self._targets(tokens)

    def counts(self, targets: Tensor) -> Tensor | None:
        """Return which targets (B, T) of whole strings tests score; None: all that are asked."""
        return None

    def _labelled(self, tokens: Tensor) -> Batch:
        """Return whole strings (B, T) with their answers."""
        targets = self.answers(tokens)
        lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        return Batch(tokens, targets, lengths, self.counts(targets))


class Task(LabelledTask):
    """A labelled language whose strings are drawn and answered piece by piece.

    A task states its `_tokens`, `_answer` and `oracle`. What stands later changes no answer.
    `prefixes` says that the beginning of a row is the row of a shorter string.
    """

    prefixes: ClassVar[bool] = True

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

    def of_lengths(
        self, stream: Stream, step: int, lengths: Sequence[int], device: Device
    ) -> Batch:
        """Draw rows of the longest and ask nothing behind each row's own end."""
        if not self.prefixes:
            return super().of_lengths(stream, step, lengths, device)
        for length in sorted(set(lengths)):
            self._check(len(lengths), length, length)
        drawn = self.sample(stream, step, len(lengths), max(lengths), device)
        own = torch.tensor([self.positions(length) for length in lengths], device=device)
        behind = torch.arange(drawn.tokens.shape[1], device=device) >= own[:, None]
        return Batch(drawn.tokens, drawn.targets.masked_fill(behind, IGNORE), own)

    def _strings(
        self, stream: Stream, step: int | range, rows: int, length: int, device: Device
    ) -> Tensor:
        return self._tokens(stream, step, rows, 0, self.positions(length), device)

    def _targets(self, tokens: Tensor) -> Tensor:
        return self._answer(tokens, 0, None)[0]

    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        carry: Carry | None = None
        positions = self.positions(length)
        for start in range(0, positions, segment):
            stop = min(start + segment, positions)
            tokens = self._tokens(stream, step, batch, start, stop, device)
            targets, carry = self._answer(tokens, start, carry)
            lengths = torch.full((batch,), stop - start, device=device)
            yield Batch(tokens, targets, lengths)


class WholeTask(LabelledTask):
    """A labelled language whose strings are drawn whole: their end is not like their middle.

    A task states its `_strings`, `_targets` and `oracle`. Memory grows with the length.
    """

    whole = True

    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        drawn = self._labelled(self._strings(stream, step, batch, length, device))
        positions = drawn.tokens.shape[1]
        for start in range(0, positions, segment):
            yield drawn.cut(start, min(start + segment, positions))
