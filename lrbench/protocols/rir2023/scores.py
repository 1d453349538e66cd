"""Accuracy on the splits of a corpus, whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.tasks.corpus.strings import Strings
from lrbench.training.scoring import evaluating
from lrbench.training.trial import Check, unwatched

Rows = NDArray[np.int64]

# Positions in a batch, padding included; strings are sorted by length, so there is little of that.
# A search for trees takes a step a position whatever the number of strings: with a quarter of these
# `ebt_grc` takes nearly three times as long at 900 to 1000 tokens. Twice as many gain little more.
POSITIONS = 1 << 15
MOST = 256  # strings in a batch


@dataclass(frozen=True)
class SplitScore:
    """What the n strings of a split gave: right answers and the mean cross-entropy."""

    n: int
    correct: int
    loss: float
    longest: int
    seconds: float

    @property
    def accuracy(self) -> float:
        return self.correct / self.n


def strings_at(
    strings: Strings, rows: Rows, device: torch.device | str
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return ((tokens (N, S), lengths (N,)) for each side in turn, labels (N,)), all int64."""
    inputs = []
    for side in range(strings.sides):
        inputs += [torch.from_numpy(part).to(device) for part in strings.padded(rows, side)]
    labels = torch.from_numpy(strings.labels[rows].astype(np.int64))
    return tuple(inputs), labels.to(device)


@evaluating
def score_split(
    model: nn.Module, strings: Strings, device: torch.device | str, check: Check = unwatched
) -> SplitScore:
    """Score a model on every string of a split, without dropout.

    check: called before each batch with its symbols; may raise to stop (a signal, a lost lease).
    """
    began = time.perf_counter()
    correct, loss = 0, 0.0
    sizes = sizes_of(strings)
    for rows in batches_by_length(sizes):
        check(read=int(sizes[rows].sum()))
        inputs, labels = strings_at(strings, rows, device)
        logits = model(*inputs)
        answered = logits.isfinite().all(-1)  # argmax makes something of NaN
        correct += int((answered & (logits.argmax(-1) == labels)).sum())
        loss += float(cross_entropy(logits.double(), labels, reduction="sum"))
    seconds = time.perf_counter() - began
    return SplitScore(len(strings), correct, loss / len(strings), int(sizes.max()), seconds)


def batches_by_length(sizes: Rows) -> Iterator[Rows]:
    """Yield all strings, shortest first, in batches of about `POSITIONS` positions."""
    order = np.argsort(sizes, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < min(len(order), start + MOST):
            if (stop + 1 - start) * sizes[order[stop]] > POSITIONS:
                break
            stop += 1
        yield order[start:stop]
        start = stop


def sizes_of(strings: Strings) -> Rows:
    """Return the length of each string, of a pair that of its longer side."""
    lengths = strings.lengths
    return lengths if lengths.ndim == 1 else lengths.max(1)
