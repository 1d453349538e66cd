"""n iterations of an Elman network in the coordinates that make its scan elementwise.

Su, kexue.fm 9783, "Simplified Form", with P^{-1} and P Lambda replaced by free matrices, cut off
after n = `iterations` (`truncated.py`):

    y^i_k = Lambda (y^i_{k-1} - y^{i-1}_{k-1}) + P tanh(Q y^{i-1}_{k-1} + u_k),   u_k = W i_k + b

Glossary: y is complex, Lambda diagonal, |Lambda| < 1 by the parameters nu_log and theta_log of
`lru.py` (r_min, r_max, max_phase as there). Conjugate halves are kept: y has N / 2 complex numbers,
held as N real ones, re and im in turn, and tanh sees 2 Re(Q y), since tanh of complex numbers has
poles. `out_of` = P (N, M), its rows in turn real and imaginary; `into` = 2 Re(Q .) (M, N); M =
`units`, N = `state_size`, M unless set. The output is y, N real numbers.

Initialisation: P Q = Lambda, as the post asks for. Q takes pairs of columns of a random orthogonal
matrix, q_j = (o_2j + i o_2j+1) / sqrt 2, so that Q^+ = Q^H, and P = Lambda Q^H.

Differences: the post does not say how Lambda is kept stable nor which square root it means by
complex tanh; it leaves P's merging into the next layer to the reader, which is what returning y is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, radii
from lrbench.mixers.nonlinear.fixed_point_surrogates import Linear
from lrbench.mixers.nonlinear.recurrence import StateMap, Tensors, empty
from lrbench.mixers.nonlinear.truncated import IterConfig, TruncatedMixer
from lrbench.mixers.state_space.lru import ring
from lrbench.registry import register_mixer
from lrbench.scan import ConstantDiagonal


@dataclass
class PQConfig(IterConfig):
    """Settings of `elman_pq_iter`.

    state_size: N, real numbers of the state; unset `units`. r_min: the smallest modulus of Lambda
    at first. r_max: the largest modulus of Lambda at first. max_phase: the largest phase of Lambda
    at first, in radians.
    """

    state_size: int | None = None
    r_min: float = 0.0
    r_max: float = 1.0
    max_phase: float = 6.28

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.state_size", self.state_size, 2)
        at_least("model.mixer.r_min", self.r_min, 0)
        at_least("model.mixer.max_phase", self.max_phase, 1e-6)
        radii(self.r_min, self.r_max)


class Factored(StateMap):
    """f(y, u) = P tanh(Q y + u), with matrices that act on real numbers."""

    def __init__(self, out_of: Tensor, into: Tensor) -> None:
        self.out_of, self.into = out_of, into

    def evaluate(self, before: Tensor | None, drive: Tensor) -> tuple[Tensor, Tensors]:
        flat = drive.flatten(0, -2)
        if before is not None:
            flat = torch.addmm(flat, before.flatten(0, -2), self.into.T)
        value = torch.tanh(flat) @ self.out_of.T
        return value.view(*drive.shape[:-1], -1), ()


@register_mixer("elman_pq_iter", PQConfig, "n iterations, diagonal scan (Su 2023)", "bare")
class ElmanPQIter(TruncatedMixer):
    """n iterations with free P and Q and a diagonal Lambda (Su 2023, Simplified Form)."""

    config: PQConfig

    def __init__(self, config: PQConfig, width: int) -> None:
        super().__init__(config, width)
        nu_log, theta_log = ring(self.size // 2, config.r_min, config.r_max, config.max_phase)
        self.nu_log, self.theta_log = nn.Parameter(nu_log), nn.Parameter(theta_log)
        self._initialise()

    def make_weights(self) -> None:
        self.size = self.config.state_size or self.units
        if self.size % 2 or self.size > self.units:
            raise ValueError(
                f"model.mixer.state_size must be even and at most the {self.units} units,"
                f" not {self.size}"
            )
        self.out_of = empty(self.size, self.units)
        self.into = empty(self.units, self.size)

    @torch.no_grad()
    def _initialise(self) -> None:
        orthogonal = nn.init.orthogonal_(torch.empty(self.units, self.size))
        q = torch.view_as_complex(orthogonal.unflatten(1, (-1, 2)).contiguous()) / sqrt(2)
        p = self.eigenvalues()[:, None] * q.mH
        self.into.copy_(torch.view_as_real(2 * q.conj()).flatten(1))  # 2 Re(q y) = 2 Re q . Re y ..
        self.out_of.copy_(torch.view_as_real(p).transpose(1, 2).flatten(0, 1))

    def eigenvalues(self) -> Tensor:
        """Return Lambda (N / 2)."""
        return torch.polar(torch.exp(-self.nu_log.exp()), self.theta_log.exp())

    def weights(self) -> Tensors:
        return self.out_of, self.into

    def state_map(self) -> StateMap:
        return Factored(*self.weights())

    def linear(self, drive: Tensor) -> Linear:
        return ConstantDiagonal(self.eigenvalues())
