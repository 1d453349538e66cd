"""Three ways to find what T positions of a diagonal-plus-low-rank system do.

The discrete transition is Abar x = a x - q s(x), s(x) = 2 Re(r x), in the names of `s4.py`.

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

import torch
from torch import Tensor

from lrbench.mixers.state_space.ssm import (
    Response,
    System,
    as_complex,
    as_rows,
    covector,
    dense,
    paired,
    with_skip,
)
from lrbench.scan.time_invariant.convolution import delayed, toeplitz
from lrbench.scan.time_invariant.powers import powers


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
