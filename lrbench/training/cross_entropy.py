"""The mean cross-entropy of a batch, compiled where it can be."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.tasks.base import IGNORE

WIDE = 16  # the compiled loop takes so many positions at a time
MOST_COMPILED_CLASSES = 64  # its loops over classes are unrolled


def mean_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the mean over positions whose target is not IGNORE, with labels smoothed.

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
        logits[None], targets[None], ignore_index=IGNORE, label_smoothing=smoothing
    )


@cache
def compiled_loss(smoothing: float) -> ClosedForm:
    """Return the function (logits, targets) -> loss."""

    def forward(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        from lrbench.scan.compiled.layers.cross_entropy import loss_loop

        slopes = logits.new_empty(logits.shape)
        loop = loss_loop(len(logits), DTYPES[logits.dtype])
        loss = loop(*map(array, (logits, targets, slopes)), smoothing, IGNORE)
        return logits.new_tensor(loss), slopes

    return ClosedForm(forward, _backward, one_by_one)


def _backward(
    logits: Tensor, targets: Tensor, loss: Tensor, slopes: Tensor, gradient: Tensor
) -> tuple[Tensor]:
    return (slopes * gradient,)
