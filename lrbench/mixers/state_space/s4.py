"""S4: diagonal-plus-low-rank state space models initialised to HiPPO-LegS, one per channel.

Gu, Goel & Ré, "Efficiently Modeling Long Sequences with Structured State Spaces", ICLR 2022
(arXiv:2111.00396); A = Lambda - P P^* as in Goel et al. 2022:

    A = Lambda - P P^*
    Abar = (I - Delta/2 A)^-1 (I + Delta/2 A),    Bbar = (I - Delta/2 A)^-1 Delta B
    x_k = Abar x_{k-1} + Bbar u_k,    y_k = 2 Re(C x_k) + D u_k,    K_n = 2 Re(C Abar^n Bbar)

With E = (2/Delta - Lambda)^-1 and Woodbury's identity, Abar = -I + (4/Delta) (2/Delta - A)^-1 is
diagonal plus low rank as well,

    Abar x = a x - q s(x),    s(x) = 2 Re(r x),    a = (2/Delta + Lambda) E,    r = P^* E,
    q = (4/Delta) E P / (1 + 2 Re(P^* E P)),    Bbar = 2 E (B - P s_B),
    s_B = 2 Re(P^* E B) / (1 + 2 Re(P^* E P))

where products with rows stand for sums over conjugate pairs.

Modes, all for any length: `series`, `krylov` and `cauchy` (the paper's) find the response in the
ways given below; `sequential` is the recurrence. Beyond `PIECE` positions `series`
reads a string in pieces that share one set of tables, since its work grows with T^2.

Differences from the released code: C itself is the parameter, not C (I - Abar^L), so that no length
is built in; Lambda, P and B are trained at `dynamics_lr` times the learning rate.

The three ways to find what T positions do, from Abar x = a x - q s(x), s(x) = 2 Re(r x):

krylov  powers of Abar written out as real N x N matrices: Bbar, Abar Bbar, .. by repeated squaring
cauchy  the kernel as in Gu, Goel & Ré 2022 (arXiv:2111.00396): the inverse transform
        of its generating function at the roots of unity, a sum of fractions
series  (ours, the fastest here) from powers of a alone. The numbers s_n = s(Abar^n v) satisfy

            s_n = s(a^n v) - sum_{j<n} beta_{n-1-j} s_j,    beta_n = s(a^n q),

        a triangular Toeplitz system in T unknowns, and then

            Abar^n v = a^n v - sum_{j<n} a^(n-1-j) q s_j

        and likewise for rows, w Abar^n. In the code alpha is s(a^n Bbar), gamma and delta are C a^n
        Bbar and C a^n q; s, tau and epsilon are s(Abar^n Bbar), C Abar^n q and s(Abar^n q).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.state_space.hippo import clipped, legs_modes
from lrbench.mixers.state_space.ssm import (
    Response,
    StateSpaceConfig,
    StateSpaceMixer,
    System,
    as_complex,
    as_pairs,
    as_rows,
    complex_normal,
    covector,
    dense,
    first_steps,
    paired,
    with_skip,
)
from lrbench.registry import register_mixer
from lrbench.scan.time_invariant.convolution import delayed, toeplitz
from lrbench.scan.time_invariant.powers import powers

PIECE = 64


@dataclass
class S4Config(StateSpaceConfig):
    """Settings of `s4`; see `StateSpaceConfig` for the others.

    n_ssm: how many different A, B, P there are, shared by equal runs of channels; None: one each.
    clip: bound of Im B at first, 0 for none; with it the first system is HiPPO only nearly.
    """

    n_ssm: int | None = None
    clip: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.n_ssm", self.n_ssm, 1)
        at_least("model.mixer.clip", self.clip, 0)


@register_mixer(
    "s4", S4Config, "diagonal plus low rank, HiPPO-LegS (Gu et al. 2022)", backbone="s4"
)
class S4Mixer(StateSpaceMixer):
    """Diagonal-plus-low-rank state space models, one per channel (Gu, Goel & Ré 2022)."""

    modes: ClassVar[tuple[str, ...]] = ("sequential", "series", "krylov", "cauchy")
    default_mode: ClassVar[str] = "series"
    tolerance: ClassVar[float] = 1e-8  # transforms
    config: S4Config

    def __init__(self, config: S4Config, width: int) -> None:
        super().__init__(config, width)
        systems = config.n_ssm or width
        if width % systems:
            raise ValueError(
                f"a mixer of width {width} is not a multiple of model.mixer.n_ssm {systems}"
            )
        omega, p, b = legs_modes(config.state_size)
        b = clipped(b, config.clip) if config.clip else b
        self.log_step = nn.Parameter(first_steps(width, config.dt_min, config.dt_max))
        self.log_decay = nn.Parameter(torch.full((systems, len(omega)), 0.5).log())
        self.frequency = nn.Parameter(omega.float().repeat(systems, 1))
        self.low_rank = nn.Parameter(as_pairs(p).repeat(systems, 1, 1))
        self.input = nn.Parameter(as_pairs(b).repeat(systems, 1, 1))
        self.output = nn.Parameter(complex_normal(width, len(omega)))
        self.skip = nn.Parameter(torch.randn(width))

    def continuous(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return Lambda, P, B, complex (D, M), and Delta (D, 1)."""
        copies = self.width // len(self.log_decay)
        modes = torch.complex(-self.log_decay.exp(), self.frequency)
        p, b = torch.view_as_complex(self.low_rank), torch.view_as_complex(self.input)
        shared = (v.repeat_interleave(copies, 0) if copies > 1 else v for v in (modes, p, b))
        return *shared, self.log_step.exp()[:, None]  # type: ignore[return-value]

    def system(self) -> LowRankSystem:
        modes, p, b, step = self.continuous()
        e = (2 / step - modes).reciprocal()
        r, ep = p.conj() * e, e * p
        share = ep / (1 + paired(r * p)[:, None])
        a = (2 / step + modes) * e
        bar = 2 * (e * b - share * paired(r * b)[:, None])
        c = torch.view_as_complex(self.output)
        return LowRankSystem(a, bar, c, self.skip, 4 / step * share, r)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        if (mode or self.default_mode) != "series" or u.shape[1] <= PIECE:
            return super().forward(u, state, mode)
        x = self.initial_state(len(u)) if state is None else state
        system, outputs = self.system(), []
        whole = series_response(system, PIECE, True)
        for piece in u.split(PIECE, 1):
            length = piece.shape[1]
            y, x = (whole if length == PIECE else series_response(system, length, True))(piece, x)
            outputs.append(y)
        return torch.cat(outputs, 1), x

    def outputs(self, u: Tensor, mode: str | None = None) -> Tensor:
        if (mode or self.default_mode) != "series" or u.shape[1] > PIECE:
            return super().outputs(u, mode)
        return series_response(self.system(), u.shape[1], False).outputs(u)

    def response(self, length: int, carried: bool, mode: str) -> Response:
        system = self.system()
        if mode == "series":
            return series_response(system, length, carried)
        response = krylov_response(system, length)
        if mode == "krylov":
            return response
        c = covector(system.c)
        assert response.rows is not None
        tilde = as_complex(c - response.rows[:, -1]).conj() / 2
        kernel = cauchy_kernel(*self.continuous(), tilde, length)
        return replace(response, kernel=with_skip(kernel, system.skip))


@dataclass(frozen=True)
class LowRankSystem(System):
    """Systems with Abar x = a x - q 2 Re(sum r x); q and r are complex (D, M)."""

    q: Tensor
    r: Tensor

    def advance(self, x: Tensor, u: Tensor) -> Tensor:
        feedback = paired(self.r * x)[..., None]
        return self.a * x - self.q * feedback + self.b * u[..., None]


def series_response(system: LowRankSystem, length: int, carried: bool) -> Response:
    """Return the response from powers of the diagonal part (`series`)."""
    a, b, c, q, r = system.a, system.b, system.c, system.q, system.r
    table = powers(a, length)
    probes = covector(torch.stack([r * b, r * q, c * b, c * q], 1))
    alpha, beta, gamma, delta = (as_rows(table) @ probes.mT).unbind(-1)
    loop = toeplitz(with_skip(delayed(beta), torch.ones_like(system.skip))).mT
    known = torch.stack([alpha, delta, beta] if carried else [alpha], -1)
    signals = torch.linalg.solve_triangular(loop, known, upper=False, unitriangular=True)
    s = signals[..., 0]
    kernel = gamma - (toeplitz(delayed(delta)).mT @ s[..., None])[..., 0]

    def columns() -> Tensor:
        return as_rows((table * b[:, None] - q[:, None] * _fed_back(s, table)).flip(1))

    response = Response(with_skip(kernel, system.skip), columns)
    if not carried:
        return response
    tau, epsilon = signals[..., 1], signals[..., 2]
    rows = table * c[:, None] - r[:, None] * _fed_back(tau, table)
    rows = rows * a[:, None] - tau[..., None] * r[:, None]
    heard = covector(r[:, None] * (table - _fed_back(epsilon, table)))
    forced = as_rows(table.flip(1) * q[:, None])
    through = dense(table[:, -1] * a) - heard.mT @ forced
    return replace(response, rows=covector(rows), through=through)


def _fed_back(signal: Tensor, table: Tensor) -> Tensor:
    """Return sum_{j<n} signal_j a^(n-1-j), (D, T, M), for signals (D, T) and powers (D, T, M)."""
    return as_complex(toeplitz(delayed(signal)).mT @ as_rows(table))


def krylov_response(system: LowRankSystem, length: int) -> Response:
    """Return the response from Abar written out as real N x N matrices and its powers."""
    matrix, c = dense_transition(system), covector(system.c)[:, None]
    columns, power = krylov(as_rows(system.b)[:, None], matrix, length)
    rows, _ = krylov(c @ matrix.mT, matrix.mT, length)
    kernel = with_skip((columns @ c.mT)[..., 0], system.skip)
    return Response(kernel, partial(columns.flip, 1), rows, power)


def dense_transition(system: LowRankSystem) -> Tensor:
    """Return G (D, N, N) with as_rows(Abar x) = as_rows(x) G: the image of each unit vector."""
    return dense(system.a) - covector(system.r)[..., None] * as_rows(system.q)[:, None]


def krylov(start: Tensor, matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return start G^n (D, count, N) for n = 0 .. count - 1, and G^count, by repeated squaring."""
    vectors, power, total = start, matrix, None
    for bit in range(count.bit_length()):
        if count >> bit & 1:
            total = power if total is None else total @ power
        if vectors.shape[1] < count:
            vectors = torch.cat([vectors, vectors @ power], 1)[:, :count]
        if count >> bit + 1:
            power = power @ power
    assert total is not None
    return vectors, total


def cauchy_kernel(
    modes: Tensor, p: Tensor, b: Tensor, step: Tensor, tilde: Tensor, length: int
) -> Tensor:
    """Return C Abar^n Bbar (D, T) by the inverse transform of its truncated generating function.

    tilde is C (I - Abar^T), (D, M). With w_j = exp(-2 pi i j / T), g = (2/Delta)(1-w)/(1+w) and
    <v> = sum_n v_n / (g - Lambda_n), the function is 2/(1+w) [<CB> - <CP><P*B> / (1 + <P*P>)]. Here
    [v] = 2/(1+w) <v>, which is finite at w = -1 too.
    """
    angles = torch.arange(length // 2 + 1, dtype=step.dtype, device=step.device)
    w = torch.polar(torch.ones_like(angles), -2 * math.pi / length * angles)
    below = 2 / step[..., None] * (1 - w)
    terms = torch.stack([tilde * b, tilde * p, p.conj() * b, p.conj() * p], 1)
    upper = terms @ (2 / (below - modes[..., None] * (1 + w)))
    lower = terms.conj() @ (2 / (below - modes.conj()[..., None] * (1 + w)))
    cb, cp, pb, pp = (upper + lower).unbind(1)
    half = (1 + w) / 2
    kernel: Tensor = torch.fft.irfft(cb - half * cp * pb / (1 + half * pp), length)
    return kernel
