"""HiPPO-LegS matrices and their diagonal-plus-low-rank form, in float64.

Gu, Dao, Ermon, Rudra & Ré, "HiPPO: Recurrent Memory with Optimal Polynomial Projections",
arXiv:2008.07669; Gu, Goel & Ré, "Efficiently Modeling Long Sequences with Structured State
Spaces", arXiv:2111.00396:

    A_nk = -sqrt(2n+1) sqrt(2k+1) (n > k),  -(n+1) (n = k),  0 (n < k);   B_n = sqrt(2n+1)
    A + P P^T = -1/2 I + skew,    P_n = sqrt(n + 1/2)
    A = V (Lambda - p p^*) V^*,   Lambda = -1/2 + i omega,   p = V^* P,   b = V^* B

The skew part is normal, so V is unitary and well conditioned. The eigenvectors of A itself have a
condition of 1e10 at N = 16 already: it must never be diagonalised as it stands.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Of Im b in the released code: at N = 64 two thirds of b are within it, but the fastest is at 41
CLIP = 2.0


def legs(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return A (N, N), B (N) and P (N) of HiPPO-LegS, float64 on CPU."""
    n = torch.arange(size, dtype=torch.float64, device="cpu")
    root = (2 * n + 1).sqrt()
    a = -torch.tril(root[:, None] * root, -1) - torch.diag(n + 1)
    return a, root, (n + 0.5).sqrt()


def legs_modes(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return omega (N/2) ascending, p and b (N/2), complex: one of each conjugate pair.

    An eigenvector is unique up to a phase. Its first component is made real and positive, the
    phase that LAPACK gives it on a common build, so that clipping Im b does not depend on the
    machine.
    """
    a, b, p = legs(size)
    skew = a + torch.outer(p, p) + 0.5 * torch.eye(size, dtype=torch.float64, device="cpu")
    omega, vectors = torch.linalg.eigh(-1j * skew)
    half = vectors[:, size // 2 :]
    half = half * (half[0].abs() / half[0])
    rows = half.mH
    return omega[size // 2 :], rows @ p.to(rows), rows @ b.to(rows)


def clipped(b: Tensor, limit: float = CLIP) -> Tensor:
    """Return complex b with imaginary parts within +-limit."""
    return torch.complex(b.real, b.imag.clamp(-limit, limit))
