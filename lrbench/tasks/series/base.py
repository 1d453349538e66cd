"""The base class of tasks of series: a fixed set in three splits, read whole or in pieces.

The purpose of a stream decides which split it reads: "train" and "validation" read those, every
other purpose (looks, tests, baselines, `lrbench evaluate`) reads the test split. So a run's data
seed does not change the test split. Training goes through shuffled epochs; the other splits are
read in order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.tasks.base import Batch, Device, SampledTask
from lrbench.tasks.stream import Stream, integers

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class SplitStream(Stream):
    """A stream that reads one split of the series; `first_row` is where in it."""

    split: str = "test"


class SeriesTask(SampledTask):
    """Series of `features` numbers a position, from a fixed set.

    A task states `features`, `longest` and `class_names`, and its `count`, `_inputs` and
    `_targets`. A string of a length below `longest` is the beginning of a series.

    Row r of a training update s is number (s - 1) B + r of the shuffled epochs, so there the batch
    size B is part of what is drawn. Elsewhere row r is series r.
    """

    fixed = True
    longest: ClassVar[int]

    def __init__(self, config: object) -> None:
        super().__init__(config)
        self.vocabulary = ()
        self.length_rule = f"lengths 1 to {self.longest:,}"  # type: ignore[misc]

    @abstractmethod
    def count(self, split: str) -> int:
        """Return how many series a split has."""

    @abstractmethod
    def _inputs(self, split: str, rows: Tensor, start: int, stop: int) -> Tensor:
        """Return positions start..stop-1 of the series `rows`: (B, S, F) float32 on CPU."""

    @abstractmethod
    def _targets(self, split: str, rows: Tensor, start: int, stop: int, length: int) -> Tensor:
        """Return the answers there, (B, S), if `length` positions are read in all."""

    @abstractmethod
    def baselines(self, length: int) -> dict[str, float]:
        """Return {name: metric} on the test split of predictors that know next to nothing."""

    def known_baselines(self, length: int) -> tuple[dict[str, float], int]:
        return self.baselines(length), self.count("test")

    def valid_length(self, length: int) -> bool:
        """Whether the series are that long."""
        return 1 <= length <= self.longest

    def stream(self, data_seed: int, *purpose: str | int) -> SplitStream:
        """Return the stream of a data seed and a purpose, which also names the split."""
        split = str(purpose[0]) if purpose and purpose[0] in SPLITS else "test"
        key = Stream.named(data_seed, self.name, *purpose).key
        return SplitStream(key, split=split)

    def available(self, stream: Stream) -> int | None:
        """Return how many series are left in the split of a stream; training never ends."""
        split = split_of(stream)
        return None if split == "train" else self.count(split) - stream.first_row

    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        split, rows = split_of(stream), self._rows(stream, step, batch)
        for start in range(0, length, segment):
            stop = min(start + segment, length)
            inputs = self._inputs(split, rows, start, stop).to(device)
            targets = self._targets(split, rows, start, stop, length).to(device)
            yield Batch(inputs, targets, torch.full((batch,), stop - start, device=device))

    def _rows(self, stream: Stream, step: int, rows: int) -> Tensor:
        """Return which series of the split are the rows of a step: (B,) int64."""
        split = split_of(stream)
        count = self.count(split)
        wanted = range(stream.first_row, stream.first_row + rows)
        if split == "train":
            offset = (step - 1) * rows
            return torch.tensor([_shuffled(stream.key, offset + row, count) for row in wanted])
        if wanted.stop > count:
            raise UserError(
                f"task {self.name}: its {split} split has {count:,} series,"
                f" not the {wanted.stop:,} that are asked for"
            )
        return torch.arange(wanted.start, wanted.stop)


def split_of(stream: Stream) -> str:
    """Return the split a stream reads; of a plain one, the test split."""
    return stream.split if isinstance(stream, SplitStream) else "test"


def _shuffled(key: int, place: int, count: int) -> int:
    """Return the series at `place` of all epochs, one after the other."""
    epoch, position = divmod(place, count)
    return int(permutation(key, epoch, count)[position])


@lru_cache(maxsize=8)
def permutation(key: int, epoch: int, count: int) -> Tensor:
    """Return a random order of `count` things: the order of random words, counter-based."""
    words = integers(Stream(key), epoch, 1, 0, count, (1 << 31) - 1, "cpu")[0]
    return words.argsort(stable=True)
