"""Accuracy at any length in constant memory.

Strings are read piece by piece, the model carrying its state and the task its own, so nothing of
size (B, T, ...) exists: 100,000 symbols cost the memory of one piece. Answers are scored at the
final position; where a loss is asked for, at every supervised position.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.tasks.base import IGNORE, Task
from lrbench.tasks.stream import Stream

ROWS = 1024  # strings read side by side
SYMBOLS = 8192  # symbols in a piece, rows x positions: what keeps (rows, positions, h, b, b) small


@dataclass(frozen=True)
class Score:
    """What n strings of one length gave: right final answers and, if asked for, the mean loss."""

    length: int
    n: int
    correct: int
    loss: float | None
    seconds: float

    @property
    def accuracy(self) -> float:
        return self.correct / self.n


def score(
    model: nn.Module,
    task: Task,
    stream: Stream,
    length: int,
    n: int,
    device: torch.device | str,
    *,
    with_loss: bool = False,
    rows: int = ROWS,
    check: Callable[[], None] = lambda: None,
) -> Score:
    """Score `model` on n strings of `length` from `stream`.

    Args:
        with_loss: also return the mean cross-entropy over supervised positions.
        rows: strings read side by side; changes speed and memory, never which strings are read.
        check: called between pieces; may raise to stop (a signal, a lost lease).
    """
    began = time.perf_counter()
    correct, total, asked = 0, 0.0, 0
    for first in range(0, n, rows):
        batch = min(rows, n - first)
        right, loss, count = _score_rows(
            model, task, stream.from_row(first), length, batch, device, with_loss, check
        )
        correct, total, asked = correct + right, total + loss, asked + count
    loss_mean = total / asked if with_loss else None
    return Score(length, n, correct, loss_mean, time.perf_counter() - began)


@torch.no_grad()
def _score_rows(
    model: nn.Module,
    task: Task,
    stream: Stream,
    length: int,
    batch: int,
    device: torch.device | str,
    with_loss: bool,
    check: Callable[[], None],
) -> tuple[int, float, int]:
    """Return (right final answers, summed loss, supervised positions) of `batch` strings."""
    segment = max(1, SYMBOLS // batch)
    state, total, asked, read = None, 0.0, 0, 0
    right = torch.zeros((), dtype=torch.int64)
    for piece in task.segments(stream, batch, length, segment, device):
        check()
        read += piece.tokens.shape[1]
        final = read == length
        how = "all" if with_loss else "last" if final else "none"
        logits, state = model(piece.tokens, state, read=how)
        if with_loss:
            total += _loss_sum(logits, piece.targets)
            asked += int((piece.targets != IGNORE).sum())
            logits = logits[:, -1]
        if final:
            # a state that overflowed answers nothing, whatever argmax makes of its NaN
            answered = logits.isfinite().all(-1)
            right = (answered & (logits.argmax(-1) == piece.targets[:, -1])).sum()
    return int(right), total, asked


def _loss_sum(logits: Tensor, targets: Tensor) -> float:
    flat = logits.flatten(0, 1), targets.flatten()
    return float(cross_entropy(*flat, ignore_index=IGNORE, reduction="sum"))
