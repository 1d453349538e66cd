"""Accuracy at any length in constant memory, or the error of predicted numbers.

Strings are read piece by piece, the model carrying its state and the task its own, so nothing of
size (B, T, ...) exists: 100,000 symbols cost the memory of one piece. A model of mode `whole` would
read again all that is before a piece: it reads fewer strings at once, and each in one piece.
Answers are scored at the final position, of `averaged` tasks at every scored one; where a loss is
asked for, at every supervised position. Numbers are scored at every position, their squares
summed in float64.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.tasks.base import IGNORE, SampledTask
from lrbench.tasks.stream import Stream
from lrbench.training.positions import PositionCounts
from lrbench.training.trial import Check, unwatched

ROWS = 256  # strings read side by side
# Symbols in a piece, rows x positions. What keeps (rows, positions, h, b, b) small, and pieces long
# enough for models whose state is thousands of numbers a string (S4's) to pay for carrying it on.
SYMBOLS = 16384
# Of strings that are read whole: a million of one is 256 MB an activation of 64 numbers
WHOLE_SYMBOLS = 1 << 18

P = ParamSpec("P")
T = TypeVar("T")


def evaluating(
    read: Callable[Concatenate[nn.Module, P], T],
) -> Callable[Concatenate[nn.Module, P], T]:
    """Make a function of a model put it in evaluation mode meanwhile, without gradients.

    Modules that trained before do so again after it. Models of lrbench's own are told by their
    caller when to drop numbers; torch's layers, in a plug-in or `foreign`, go by this mode.
    """

    @wraps(read)
    def reading(model: nn.Module, /, *args: P.args, **named: P.kwargs) -> T:
        trained = [module for module in model.modules() if module.training]
        model.eval()
        try:
            with torch.no_grad():
                return read(model, *args, **named)
        finally:
            for module in trained:
                module.training = True

    return reading


@dataclass(frozen=True)
class Score:
    """What n strings of one length gave: right final answers and, if asked for, the mean loss.

    Where numbers were foretold, `squares` are the sums of the squared error and of the squared
    target. `positions` are the answers at every position, where they were counted. `averaged`:
    accuracy is the share of these. Then `correct` is as many of n strings as that share makes,
    rounded down: answers of one string are not independent, so its interval is of n, not of more.
    """

    length: int
    n: int
    correct: int
    loss: float | None
    seconds: float
    squares: tuple[float, float] | None = None
    positions: PositionCounts | None = None
    averaged: bool = False

    @property
    def accuracy(self) -> float:
        return pooled([self])

    @property
    def value(self) -> float:
        """The value of the task's metric."""
        return pooled([self])


class _Sums(NamedTuple):
    right: int = 0
    loss: float = 0.0
    supervised: int = 0  # positions
    error: float = 0.0
    power: float = 0.0  # of the targets

    def and_also(self, other: _Sums) -> _Sums:
        return _Sums(
            self.right + other.right,
            self.loss + other.loss,
            self.supervised + other.supervised,
            self.error + other.error,
            self.power + other.power,
        )


def pooled(scores: Sequence[Score]) -> float:
    """Return the metric over the strings of all `scores`, infinite for an error that is nan."""
    squares = [score.squares for score in scores if score.squares is not None]
    if not squares:
        counts = [s.positions for s in scores if s.averaged and s.positions is not None]
        if counts:
            return sum(c.right for c in counts) / sum(c.scored for c in counts)
        return sum(s.correct for s in scores) / sum(s.n for s in scores)
    error, power = map(sum, zip(*squares, strict=True))
    return math.sqrt(error / power) if power > 0 and math.isfinite(error) else math.inf


@evaluating
def score(
    model: nn.Module,
    task: SampledTask,
    stream: Stream,
    length: int,
    n: int,
    device: torch.device | str,
    *,
    with_loss: bool = False,
    by_position: bool = False,
    rows: int = ROWS,
    check: Check = unwatched,
) -> Score:
    """Score `model` on n strings of `length` from `stream`, or on as many as it has.

    Args:
        with_loss: also return the mean cross-entropy over supervised positions (of numbers, the
            mean squared error).
        by_position: also count the answers at every position, not only the final ones; those of
            `averaged` tasks are always counted.
        rows: strings read side by side; changes speed and memory, never which strings are read.
        check: called before each piece with its symbols; may raise to stop (a signal, a lost
            lease).
    """
    began = time.perf_counter()
    available = task.available(stream)
    n = n if available is None else min(n, available)
    sums = _Sums()
    averaged = task.averaged and task.metric.counts
    positions = PositionCounts(task.positions(length)) if by_position or averaged else None
    if reads_whole(model):
        rows = max(1, min(rows, WHOLE_SYMBOLS // task.positions(length)))
    for first in range(0, n, rows):
        batch = min(rows, n - first)
        part = stream.from_row(first)
        sums = sums.and_also(
            _score_rows(model, task, part, length, batch, device, with_loss, check, positions)
        )
    loss = sums.loss / sums.supervised if with_loss else None
    squares = None if task.metric.counts else (sums.error, sums.power)
    right = sums.right
    if averaged and positions is not None:
        right = positions.right * n // positions.scored
    seconds = time.perf_counter() - began
    return Score(length, n, right, loss, seconds, squares, positions, averaged)


def _score_rows(
    model: nn.Module,
    task: SampledTask,
    stream: Stream,
    length: int,
    batch: int,
    device: torch.device | str,
    with_loss: bool,
    check: Check,
    positions: PositionCounts | None,
) -> _Sums:
    """Return what `batch` strings add up to; count them in `positions`, too."""
    if not task.metric.counts:
        return _score_numbers(model, task, stream, length, batch, device, check)
    segment = _segment(model, task, length, batch)
    state, total, supervised, read = None, 0.0, 0, 0
    right = torch.zeros((), dtype=torch.int64)
    if positions is not None:
        positions.begin(batch)
    everywhere, end = with_loss or positions is not None, task.positions(length)
    for piece in task.segments(stream, batch, length, segment, device):
        check(read=batch * piece.tokens.shape[1])
        read += piece.tokens.shape[1]
        final = read == end
        how = "all" if everywhere else "last" if final else "none"
        logits, state = model(piece.tokens, state, read=how)
        if with_loss:
            total += _loss_sum(logits, piece.targets)
            supervised += int((piece.targets != IGNORE).sum())
        if positions is not None:
            positions.add(logits, piece.targets, piece.counted)
        if everywhere:
            logits = logits[:, -1]
        if final:
            # a state that overflowed answers nothing, whatever argmax makes of its NaN
            answered = logits.isfinite().all(-1)
            right = (answered & (logits.argmax(-1) == piece.targets[:, -1])).sum()
    return _Sums(int(right), total, supervised)


def _score_numbers(
    model: nn.Module,
    task: SampledTask,
    stream: Stream,
    length: int,
    batch: int,
    device: torch.device | str,
    check: Check,
) -> _Sums:
    """Return what `batch` strings of numbers add up to; their loss is the squared error."""
    state, sums = None, _Sums()
    segment = _segment(model, task, length, batch)
    for piece in task.segments(stream, batch, length, segment, device):
        check(read=batch * piece.tokens.shape[1])
        outputs, state = model(piece.tokens, state, read="all")
        targets = piece.targets.double()
        error = float((outputs[..., 0].double() - targets).square().sum())
        power = float(targets.square().sum())
        sums = sums.and_also(_Sums(0, error, targets.numel(), error, power))
    return sums


def symbols_of(task: SampledTask, tests: Iterable[tuple[Stream, int, int]]) -> int:
    """Return how many symbols `score` reads for tests of (stream, length, strings)."""
    total = 0
    for stream, length, n in tests:
        available = task.available(stream)
        total += task.positions(length) * (n if available is None else min(n, available))
    return total


def reads_whole(model: nn.Module) -> bool:
    """Whether a model has nothing to carry from piece to piece but all that it has read."""
    return getattr(model, "mode", None) == "whole"


def _segment(model: nn.Module, task: SampledTask, length: int, batch: int) -> int:
    """Return how many positions of `batch` strings are read at once."""
    return task.positions(length) if reads_whole(model) else max(1, SYMBOLS // batch)


def _loss_sum(logits: Tensor, targets: Tensor) -> float:
    flat = logits.flatten(0, 1), targets.flatten()
    return float(cross_entropy(*flat, ignore_index=IGNORE, reduction="sum"))
