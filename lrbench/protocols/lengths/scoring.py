"""Accuracy on strings of many lengths: read side by side, each answered at its own end.

Strings stand in order of length, so that those in one block end near each other. A block is read
piece by piece with the model's state carried along, as strings of one length are.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.tasks.base import IGNORE, Batch, LabelledTask
from lrbench.tasks.stream import Stream
from lrbench.training.positions import PositionCounts
from lrbench.training.scoring import ROWS, SYMBOLS, Score, evaluating, score
from lrbench.training.trial import Check, unwatched


@evaluating
def score_lengths(
    model: nn.Module,
    task: LabelledTask,
    stream: Stream,
    lengths: Sequence[int],
    device: torch.device | str,
    *,
    only_last: bool = False,
    check: Check = unwatched,
) -> tuple[list[Score], float]:
    """Score a string of each of `lengths`; return the scores by length and the mean loss.

    Correct is what `score` counts: the final answer of a string, of `averaged` tasks every scored
    answer, which are pooled. only_last: the loss is that of final answers alone.
    """
    began, ordered = time.perf_counter(), sorted(lengths)
    right: Counter[int] = Counter()  # answers, by the length of their string
    scored: Counter[int] = Counter()
    loss, supervised = 0.0, 0
    for first in range(0, len(ordered), ROWS):
        some = ordered[first : first + ROWS]
        batch = task.of_lengths(stream.from_row(first), 0, some, device)
        targets = final_targets(batch) if only_last else batch.targets
        counted = batch.counted if task.averaged else final_targets(batch) != IGNORE
        hits, total = _read(model, batch, targets, counted, check)
        loss, supervised = loss + total, supervised + int((targets != IGNORE).sum())
        for length, correct, answers in zip(
            some, hits.tolist(), counted.sum(1).tolist(), strict=True
        ):
            right[length] += correct
            scored[length] += answers
    seconds = time.perf_counter() - began
    strings = Counter(ordered)
    found = []
    for length, n in sorted(strings.items()):
        counts = None
        if task.averaged:
            counts = PositionCounts(task.positions(length))
            counts.strings, counts.right, counts.scored = n, right[length], scored[length]
        correct = right[length] * n // max(1, scored[length])
        share = seconds * n / len(ordered)
        found.append(Score(length, n, correct, None, share, None, counts, task.averaged))
    return found, loss / max(1, supervised)


def score_each(
    model: nn.Module,
    task: LabelledTask,
    streams: Callable[[int], Stream],
    lengths: Sequence[int],
    strings: int,
    device: torch.device | str,
    check: Check = unwatched,
) -> list[Score]:
    """Score `strings` strings of each of `lengths`, with the answers at every position."""
    return [
        score(
            *(model, task, streams(length), length, strings, device),
            by_position=task.by_position,
            check=check,
        )
        for length in lengths
    ]


def final_targets(batch: Batch) -> Tensor:
    """Return the targets (B, T) without those before the last position of a row's own."""
    positions = torch.arange(batch.targets.shape[1], device=batch.targets.device)
    return batch.targets.masked_fill(positions != batch.lengths[:, None] - 1, IGNORE)


def _read(
    model: nn.Module, batch: Batch, targets: Tensor, counted: Tensor, check: Check
) -> tuple[Tensor, float]:
    """Return how many counted answers of each row are right, and the summed loss."""
    rows, width = batch.targets.shape
    hits = torch.zeros(rows, dtype=torch.int64, device=batch.targets.device)
    state, total, segment = None, 0.0, max(1, SYMBOLS // rows)
    for start in range(0, width, segment):
        piece = slice(start, min(start + segment, width))
        check(read=rows * (piece.stop - start))
        wanted, scored = targets[:, piece], counted[:, piece]
        needed = bool(scored.any() or (wanted != IGNORE).any())
        read = "all" if needed else "none"
        logits, state = model(batch.tokens[:, piece], state, read=read)
        if not needed:
            continue
        # a state that overflowed answers nothing, whatever argmax makes of its NaN
        known = logits.isfinite().all(-1) & (logits.argmax(-1) == batch.targets[:, piece])
        hits += (known & scored).sum(1)
        flat = logits.flatten(0, 1), wanted.flatten()
        total += float(cross_entropy(*flat, ignore_index=IGNORE, reduction="sum"))
    return hits, total
