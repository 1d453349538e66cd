"""The mean cross-entropy of a batch with smoothed labels, compiled where it can be.

For logits l (C, N), targets t and smoothing e, over the n targets that are not `ignored`,

    loss = mean_i ( log sum_c exp l_ci - (1 - e) l_{t_i i} - (e / C) sum_c l_ci ),
    dl_ci = ( softmax(l)_ci - (1 - e) [c = t_i] - e / C ) / n.

The compiled loop makes the gradient in the same pass. WIDE positions lie side by side in lanes:
exponentials are what costs. N must be a multiple of WIDE.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.elementary import LOG2_E, exp2, log2
from lrbench.kernels.lanes import add, every, greater, load, mul, reciprocal, store, sub, zero

WIDE = 16  # the compiled loop takes so many positions at a time
IGNORED = -100  # a target that counts for nothing, as torch has it
MOST_COMPILED_CLASSES = 64  # its loops over classes are unrolled


def mean_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the mean over positions whose target is not IGNORED, with labels smoothed.

    `logits` (C, N) come with classes before positions in memory: sums over five contiguous numbers
    are not vectorised. `targets` are (N,), int64. Raises ValueError for other shapes and types: the
    compiled loop reads as many logits as there are targets.
    """
    if logits.dim() != 2 or targets.shape != logits.shape[1:] or targets.dtype != torch.int64:
        raise ValueError(
            f"logits {tuple(logits.shape)} and targets {tuple(targets.shape)} of {targets.dtype}"
            " do not belong together: they must be (C, N), and (N,) of torch.int64"
        )
    fits = len(targets) % WIDE == 0 and 0 < len(logits) <= MOST_COMPILED_CLASSES
    if fits and usable(logits, "cross_entropy", len(logits)):
        return compiled_loss(smoothing)(logits, targets)
    return cross_entropy(
        logits[None], targets[None], ignore_index=IGNORED, label_smoothing=smoothing
    )


@cache
def compiled_loss(smoothing: float) -> ClosedForm:
    """Return the function (logits, targets) -> loss."""

    def forward(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        slopes = logits.new_empty(logits.shape)
        loop = loss_loop(len(logits), DTYPES[logits.dtype])
        loss = loop(*map(array, (logits, targets, slopes)), smoothing, IGNORED)
        return logits.new_tensor(loss), slopes

    return ClosedForm(forward, _backward, one_by_one)


def _backward(
    logits: Tensor, targets: Tensor, loss: Tensor, slopes: Tensor, gradient: Tensor
) -> tuple[Tensor]:
    return (slopes * gradient,)


@cache
def loss_loop(classes: int, dtype: str) -> Loop:
    """Return the loop (l, t, dl to fill, smoothing, ignored) -> loss; C = `classes`."""

    @compiled(classes, dtype)
    def cross_entropy(logits, targets, slopes, smoothing, ignored):  # type: ignore[no-untyped-def]
        positions = targets.shape[0]
        counted = 0
        for i in range(positions):
            if targets[i] != ignored:
                if targets[i] < 0 or targets[i] >= classes:
                    raise IndexError("a target is not among the classes")
                counted += 1
        log_sums = np.empty(WIDE, logits.dtype)
        nothing = zero(load(logits, 0, WIDE))
        log2_e, log_2 = every(LOG2_E, nothing), every(1 / LOG2_E, nothing)
        share, of_all = every(1 / counted, nothing), every(smoothing / classes, nothing)
        loss = 0.0
        for start in range(0, positions, WIDE):
            largest = load(logits, start, WIDE)
            for c in range(1, classes):
                largest = greater(largest, load(logits, c * positions + start, WIDE))
            sums = nothing
            for c in range(classes):
                at = c * positions + start
                power = exp2(mul(sub(load(logits, at, WIDE), largest), log2_e))
                store(slopes, at, power)
                sums = add(sums, power)
            store(log_sums, 0, add(largest, mul(log2(sums), log_2)))
            inverse = reciprocal(sums)
            for c in range(classes):
                at = c * positions + start
                probability = mul(load(slopes, at, WIDE), inverse)
                store(slopes, at, mul(sub(probability, of_all), share))
            for i in range(start, start + WIDE):
                target = targets[i]
                if target == ignored:
                    for c in range(classes):
                        slopes[c, i] = 0
                else:
                    loss += log_sums[i - start] - (1 - smoothing) * logits[target, i]
                    if smoothing > 0:  # 0 times an infinite logit is no number
                        spread = 0.0
                        for c in range(classes):
                            spread += logits[c, i]
                        loss -= smoothing / classes * spread
                    slopes[target, i] -= (1 - smoothing) / counted
        return loss / counted

    return cross_entropy
