"""A task that is a corpus: labelled strings, or pairs of them, in fixed splits on disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.locations import data_dir
from lrbench.tasks.base import TaskBase
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.stream import Stream, integers


class CorpusTask(TaskBase):
    """Strings of many lengths with one answer each, for models that read them whole (encoders).

    A corpus states `vocabulary`, `class_names` and `sides` (2 for pairs), and its `read` and
    `baselines`. No string is drawn at random: training goes through a split in epochs. A
    corpus of nested strings also states the tokens that open a bracket (`opening`), those that
    close one (`closing`), and those of both that have no other meaning (`marks`).
    """

    protocols: ClassVar[tuple[str, ...]] = ("rir2023",)
    opening: ClassVar[frozenset[int]] = frozenset()
    closing: ClassVar[frozenset[int]] = frozenset()
    marks: ClassVar[frozenset[int]] = frozenset()
    one_answer = True

    @abstractmethod
    def read(self, split: str) -> Strings:
        """Return a split; UserError where it is unknown or not on disk."""

    def baselines(self, split: str, trained_on: str) -> Mapping[str, float]:
        """Return the accuracy on a split of predictors that know next to nothing."""
        return of_labels(self.load(trained_on), self.load(split))

    @abstractmethod
    def answer(self, *sides: Sequence[int]) -> int | None:
        """Return the class of a string, or of a pair, slowly and obviously right.

        None of a corpus whose answers people gave: no rule computes them.
        """

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of a string as a person types it, symbols between spaces.

        Raises UserError for a symbol that the task does not have.
        """
        ids = {symbol: token for token, symbol in enumerate(self.vocabulary)}
        known, symbols = " ".join(self.vocabulary), text.split()
        for position, symbol in enumerate(symbols, 1):
            if symbol not in ids:
                raise UserError(f"symbol {position} is '{symbol[:40]}'; {self.name} has {known}")
        if not symbols:
            raise UserError(f"an empty string; {self.name} has {known}")
        return [ids[symbol] for symbol in symbols]

    def brackets(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Return (first position, one after the last) of each bracket, inner ones first.

        The string must be right: `tokens_of` refuses others.
        """
        found, open_at = [], []
        for position, token in enumerate(tokens):
            if token in self.opening:
                open_at.append(position)
            elif token in self.closing:
                found.append((open_at.pop(), position + 1))
        return found

    def load(self, split: str) -> Strings:
        """Return a split, read once a process. Raises UserError as `read` does."""
        settings = tuple(sorted(vars(self.config).items()))
        make: Callable[..., Any] = type(self.config)
        return _loaded(type(self), make, settings, split, data_dir())


@lru_cache(maxsize=32)
def _loaded(
    task_class: type[CorpusTask],
    config: Callable[..., Any],
    settings: tuple[tuple[str, Any], ...],
    split: str,
    folder: Path,
) -> Strings:
    return task_class(config(**dict(settings))).read(split)


def shuffled(stream: Stream, epoch: int, count: int) -> Tensor:
    """Return `count` numbers in a random order, another for each epoch; counter-based."""
    words = integers(stream, epoch, 1, 0, count, (1 << 31) - 1, "cpu")[0]
    order: Tensor = torch.argsort(words, stable=True)
    return order


def of_labels(train: Strings, test: Strings) -> dict[str, float]:
    """Return accuracies on `test`: `uniform` guesses, `majority` says the commonest of `train`."""
    classes = len(train.class_names)
    commonest = np.bincount(train.labels, minlength=classes).argmax()
    return {"uniform": 1 / classes, "majority": float(np.mean(test.labels == commonest))}
