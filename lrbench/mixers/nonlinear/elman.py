"""The Elman network with tanh: position by position, in parallel, and by n iterations.

Elman 1990; as in J. Su, "Mind-blowing: can non-linear RNNs actually be computed in parallel?"
(kexue.fm 9783), Eq. 1:

    x_k = tanh(A x_{k-1} + u_k),   u_k = W i_k + b
    dx_k/dx_{k-1} = diag(1 - x_k^2) A

`elman` runs the loop. The others iterate (`fixed_point.py`) with a surrogate of the Jacobians:

    elman_plain_solve   A itself (Su, Eq. 3)        elman_plain_iter    the same, n iterations
    elman_taylor_solve  diag(sech^2 u_k) A (Su)     elman_taylor_iter   the same, n iterations
    elman_newton_solve  the Jacobians: DEER (Lim et al. 2024)
    elman_quasi_solve   their diagonals (Gonzalez et al. 2024)

`_solve` ends when the states no longer change: it is `elman`, with one gradient for all
(`solved.py`). `_iter` is a model of its own, cut off after n = `iterations` (`truncated.py`):

    x^i_k = A (x^i_{k-1} - x^{i-1}_{k-1}) + tanh(A x^{i-1}_{k-1} + u_k)

Glossary: matrix = A (N, N), [row, column]; input = W, b; x_0 = 0.

Differences: the post has no b. torch.nn.RNN (`rnn`) adds a second bias, which changes nothing
that can be computed. The post leaves open when to stop and what the gradient is. Its
diagonalisation of A, which loses nothing but changes what costs what, is not made. Nothing keeps
A's spectral radius below one: states of `_iter` may grow on strings longer than those of training.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES
from lrbench.mixers.nonlinear.recurrence import (
    LoopConfig,
    LoopMixer,
    Recurrence,
    RecurrentMixer,
    Tensors,
    empty,
)
from lrbench.mixers.nonlinear.solved import SolveConfig, SolvedMixer
from lrbench.mixers.nonlinear.truncated import IteratedMixer, IterConfig
from lrbench.registry import register_mixer
from lrbench.scan.linearised import RowScaled


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

    recurrence: ClassVar[type[Recurrence]] = Elman

    def make_weights(self) -> None:
        self.matrix = empty(self.units, self.units)

    def weights(self) -> tuple[Tensor, ...]:
        return (self.matrix,)


@register_mixer("elman", LoopConfig, "tanh network (Elman 1990)", backbone="bare")
class ElmanMixer(LoopMixer, ElmanWeights):
    """Elman network by a loop over time (Elman 1990; Su, kexue.fm 9783, Eq. 1)."""


@register_mixer("elman_plain_solve", SolveConfig, "iterated with A (Su 2023)", "bare")
class ElmanPlainSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with A at every position (Su 2023, Eq. 3)."""

    surrogate = SURROGATES["plain"]


@register_mixer("elman_taylor_solve", SolveConfig, "iterated with sech^2(u) A (Su 2023)", "bare")
class ElmanTaylorSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with its Jacobians at x = 0 (Su 2023)."""

    surrogate = SURROGATES["taylor"]


@register_mixer("elman_newton_solve", SolveConfig, "Newton iteration: DEER (Lim 2024)", "bare")
class ElmanNewtonSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with its Jacobians at each iterate (Lim et al. 2024)."""

    surrogate = SURROGATES["newton"]


@register_mixer("elman_quasi_solve", SolveConfig, "quasi-DEER (Gonzalez et al. 2024)", "bare")
class ElmanQuasiSolve(ElmanWeights, SolvedMixer):
    """Elman network, iterated with the diagonals of its Jacobians (Gonzalez et al. 2024)."""

    surrogate = SURROGATES["quasi"]


@register_mixer("elman_plain_iter", IterConfig, "n iterations with A (Su 2023)", "bare")
class ElmanPlainIter(ElmanWeights, IteratedMixer):
    """n iterations with A at every position (Su 2023, Eq. 3)."""

    surrogate = SURROGATES["plain"]


@register_mixer("elman_taylor_iter", IterConfig, "n iterations with sech^2(u) A (Su 2023)", "bare")
class ElmanTaylorIter(ElmanWeights, IteratedMixer):
    """n iterations with the Jacobians at x = 0 (Su 2023)."""

    surrogate = SURROGATES["taylor"]
