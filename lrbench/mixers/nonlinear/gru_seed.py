"""The gated recurrent unit that resets before the matrix: by a loop, or by iterations.

Cho et al. 2014, as in J. Su, "Mind-blowing: can non-linear RNNs actually be computed in parallel?"
(kexue.fm 9783), General Cases:

    z_k = sigmoid(u^z_k + U_z h_{k-1}),   r_k = sigmoid(u^r_k + U_r h_{k-1})
    c_k = tanh(u^h_k + U_h (r_k h_{k-1}))
    h_k = (1 - z_k) h_{k-1} + z_k c_k,            u_k = (u^z, u^r, u^h)_k = W i_k + b

    dh_k/dh_{k-1} = diag(1 - z) + diag((c - h) z (1 - z)) U_z
                    + diag(z (1 - c^2)) U_h [diag(r) + diag(h r (1 - r)) U_r]

`gru_seed` runs the loop. `gru_plain_solve` iterates (`fixed_point.py`) with (I + U_h / 2) / 2, the
Jacobian where all gates are a half, which is at h = 0 and u = 0; `gru_newton_solve` with the
Jacobians at each iterate (Lim et al. 2024, DEER). Both end at the states of `gru_seed`, with one
gradient (`solved.py`). `gru_plain_iter` is a model of its own, n = `iterations` of the first
(`truncated.py`).

Glossary: gates = U_z over U_r (2N, N); candidate = U_h (N, N); input = W, b of all three; h_0 = 0.

Differences: none from the post. torch.nn.GRU (`gru`) resets after the matrix, c = tanh(.. + r (U_h
h + b)), and its z is 1 - z here: neither can be made into the other.
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
from lrbench.scan.linearised import Linearised


class GatedUnit(Recurrence):
    """f(h, u) of the unit; its gates are (z and r side by side, (.., 2N); c (.., N))."""

    count: ClassVar[int] = 2

    def __init__(self, gates: Tensor, candidate: Tensor) -> None:
        self.gates, self.candidate = gates, candidate

    def evaluate(self, before: Tensor | None, drive: Tensor) -> tuple[Tensor, Tensors]:
        units = len(self.candidate)
        of_gates, of_candidate = drive[..., : 2 * units], drive[..., 2 * units :]
        if before is None:
            zr, c = torch.sigmoid(of_gates), torch.tanh(of_candidate)
            return zr[..., :units] * c, (zr, c)
        zr = torch.sigmoid(of_gates + before @ self.gates.T)
        z, r = zr.chunk(2, -1)
        c = torch.tanh(of_candidate + (r * before) @ self.candidate.T)
        return torch.lerp(before, c, z), (zr, c)

    def jacobians(self, before: Tensor | None, after: Tensor, gates: Tensors) -> GatedJacobians:
        (z, r), c = gates[0].chunk(2, -1), gates[1]
        h = torch.zeros_like(c) if before is None else before
        factors = torch.cat([(c - h) * z * (1 - z), h * r * (1 - r)], -1)
        return GatedJacobians(self, 1 - z, r, factors, z * (1 - c.square()))

    def slopes(self, before: Tensor, after: Tensor, gates: Tensors, adjoints: Tensor) -> Tensors:
        (z, r), c = gates[0].chunk(2, -1), gates[1]
        dc = adjoints * z * (1 - c.square())
        through = dc @ self.candidate  # of r h
        du_z = adjoints * (c - before) * z * (1 - z)
        du_gates = torch.cat([du_z, through * before * r * (1 - r)], -1)
        dstart = adjoints[0] * (1 - z[0]) + through[0] * r[0] + du_gates[0] @ self.gates
        dgates = du_gates.flatten(0, 1).T @ before.flatten(0, 1)
        dcandidate = dc.flatten(0, 1).T @ (r * before).flatten(0, 1)
        return torch.cat([du_gates, dc], -1), dstart, dgates, dcandidate

    def run(self, drive: Tensor, start: Tensor) -> tuple[Tensor, Tensors]:
        units, shape = len(self.candidate), drive.shape[:-1]
        zr, c, states = (drive.new_empty(*shape, n * units) for n in (2, 1, 1))
        of_gates, of_candidate = drive[..., : 2 * units], drive[..., 2 * units :]
        gates, candidate, h = self.gates.T, self.candidate.T, start
        for k in range(len(drive)):
            z, r = torch.addmm(of_gates[k], h, gates, out=zr[k]).sigmoid_().chunk(2, -1)
            torch.addmm(of_candidate[k], r * h, candidate, out=c[k]).tanh_()
            h = torch.lerp(h, c[k], z, out=states[k])
        return states, (zr, c)


class GatedJacobians(Linearised):
    """dh_k/dh_{k-1} of the unit.

    keep = 1 - z, reset = r and candidate = z (1 - c^2), (T, B, N); gates = ((c - h) z (1 - z),
    h r (1 - r)) side by side, (T, B, 2N).
    """

    def __init__(
        self, unit: GatedUnit, keep: Tensor, reset: Tensor, gates: Tensor, candidate: Tensor
    ) -> None:
        self.unit, self.keep, self.reset = unit, keep, reset
        self.gates, self.candidate = gates, candidate

    def add_product(self, out: Tensor, position: int, v: Tensor) -> None:
        through = (v @ self.unit.gates.T).mul_(self.gates[position])
        of_z, of_r = through.chunk(2, -1)
        inner = torch.addcmul(of_r, self.reset[position], v) @ self.unit.candidate.T
        out.addcmul_(self.keep[position], v).add_(of_z)
        out.addcmul_(self.candidate[position], inner)

    def add_transposed(self, out: Tensor, position: int, v: Tensor) -> None:
        through = (v * self.candidate[position]) @ self.unit.candidate
        both = torch.cat([v, through], -1).mul_(self.gates[position])
        out.addcmul_(self.keep[position], v).addcmul_(self.reset[position], through)
        out.addmm_(both, self.unit.gates)

    def matrices(self) -> Tensor:
        of_z, of_r = self.gates.chunk(2, -1)
        u_z, u_r = self.unit.gates.chunk(2, 0)
        inner = torch.diag_embed(self.reset) + of_r[..., None] * u_r
        through = self.candidate[..., None] * (self.unit.candidate @ inner)
        return torch.diag_embed(self.keep) + of_z[..., None] * u_z + through

    def diagonal(self) -> Tensor:
        of_z, of_r = self.gates.chunk(2, -1)
        u_z, u_r = self.unit.gates.chunk(2, 0)
        u_h = self.unit.candidate
        inner = self.reset * u_h.diagonal() + of_r @ (u_h * u_r.T).T
        return self.keep + of_z * u_z.diagonal() + self.candidate * inner


class GatedWeights(RecurrentMixer):
    """The parameters of a gated recurrent unit, whichever way its states are found."""

    recurrence: ClassVar[type[Recurrence]] = GatedUnit
    drives: ClassVar[int] = 3

    def make_weights(self) -> None:
        self.gates = empty(2 * self.units, self.units)
        self.candidate = empty(self.units, self.units)

    def weights(self) -> tuple[Tensor, ...]:
        return self.gates, self.candidate


@register_mixer(
    "gru_seed", LoopConfig, "unit that resets before the matrix (Cho et al. 2014)", "bare"
)
class GruSeedMixer(LoopMixer, GatedWeights):
    """Gated recurrent unit by a loop over time (Cho et al. 2014; Su, kexue.fm 9783)."""


@register_mixer("gru_plain_solve", SolveConfig, "gated unit, iterated with one matrix", "bare")
class GruPlainSolve(GatedWeights, SolvedMixer):
    """Gated unit, iterated with (I + U_h / 2) / 2 (Su 2023)."""

    surrogate = SURROGATES["plain"]


@register_mixer("gru_newton_solve", SolveConfig, "gated unit by DEER (Lim et al. 2024)", "bare")
class GruNewtonSolve(GatedWeights, SolvedMixer):
    """Gated unit, iterated with its Jacobians at each iterate (Lim et al. 2024)."""

    surrogate = SURROGATES["newton"]


@register_mixer("gru_plain_iter", IterConfig, "n iterations of a gated unit (Su 2023)", "bare")
class GruPlainIter(GatedWeights, IteratedMixer):
    """n iterations of a gated unit with (I + U_h / 2) / 2 (Su 2023)."""

    surrogate = SURROGATES["plain"]
