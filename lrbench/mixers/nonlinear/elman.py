"""The Elman network with tanh, position by position.

Elman 1990; as in J. Su, "Mind-blowing: can non-linear RNNs actually be computed in parallel?"
(kexue.fm 9783), Eq. 1:

    x_k = tanh(A x_{k-1} + u_k),   u_k = W i_k + b
    dx_k/dx_{k-1} = diag(1 - x_k^2) A

Glossary: matrix = A (N, N), [row, column]; input = W, b; x_0 = 0.

Differences: the post has no b. torch.nn.RNN (`rnn`) adds a second bias, which changes nothing
that can be computed.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lrbench.mixers.nonlinear.recurrence import Recurrence, Tensors
from lrbench.mixers.nonlinear.recurrent import RecurrentConfig, RecurrentMixer, empty
from lrbench.registry import register_mixer
from lrbench.scan.row_scaled import RowScaled


class Elman(Recurrence):
    """f(x, u) = tanh(A x + u); no gates."""

    count: ClassVar[int] = 1

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def evaluate(self, before: Tensor | None, drive: Tensor) -> tuple[Tensor, Tensors]:
        if before is None:
            return torch.tanh(drive), ()
        flat = torch.addmm(drive.flatten(0, -2), before.flatten(0, -2), self.matrix.T)
        return flat.tanh_().view(drive.shape), ()

    def jacobians(self, before: Tensor | None, after: Tensor, gates: Tensors) -> RowScaled:
        return RowScaled(1 - after.square(), self.matrix)

    def slopes(self, before: Tensor, after: Tensor, gates: Tensors, adjoints: Tensor) -> Tensors:
        du = torch.ops.aten.tanh_backward(adjoints, after)
        return du, du[0] @ self.matrix, du.flatten(0, 1).T @ before.flatten(0, 1)

    def run(self, drive: Tensor, start: Tensor) -> tuple[Tensor, Tensors]:
        states, transposed, x = torch.empty_like(drive), self.matrix.T, start
        for u, out in zip(drive.unbind(0), states.unbind(0), strict=True):
            x = torch.addmm(u, x, transposed, out=out).tanh_()
        return states, ()


class ElmanWeights(RecurrentMixer):
    """The parameters of an Elman network, whichever way its states are found."""

    kind: ClassVar[type[Recurrence]] = Elman

    def make_weights(self) -> None:
        self.matrix = empty(self.units, self.units)

    def weights(self) -> tuple[Tensor, ...]:
        return (self.matrix,)


@register_mixer("elman", RecurrentConfig, "tanh network (Elman 1990)", backbone="bare")
class ElmanMixer(ElmanWeights):
    """Elman network by a loop over time (Elman 1990; Su, kexue.fm 9783, Eq. 1)."""
