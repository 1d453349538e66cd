"""HiPPO-LegS, its normal form and the modes found from it."""

from __future__ import annotations

import pytest
import torch

from lrbench.mixers.state_space.hippo import clipped, legs, legs_modes


@pytest.mark.parametrize("size", [2, 8, 64])
def test_low_rank_correction_leaves_a_skew_matrix(size: int) -> None:
    a, _, p = legs(size)
    rest = a + torch.outer(p, p) + 0.5 * torch.eye(size, dtype=a.dtype)
    torch.testing.assert_close(rest, -rest.mT)


def test_entries() -> None:
    a, b, p = legs(3)
    assert a[0, 1] == 0
    assert a.diagonal().tolist() == [-1, -2, -3]
    torch.testing.assert_close(a[2, 1], -torch.tensor(15.0, dtype=a.dtype).sqrt())
    torch.testing.assert_close(b.square().tolist(), [1.0, 3.0, 5.0])
    torch.testing.assert_close(p.square().tolist(), [0.5, 1.5, 2.5])


@pytest.mark.parametrize("size", [8, 64])
def test_modes_are_those_of_the_dense_system(size: int) -> None:
    """C (z - A)^-1 B is the same for the dense system and for Lambda - p p^*, both halves."""
    a, b, _ = legs(size)
    omega, p, bt = legs_modes(size)
    half = torch.complex(torch.full_like(omega, -0.5), omega)
    modes, p, bt = (torch.cat([v, v.conj()]) for v in (half, p, bt))
    whole = torch.diag(modes) - torch.outer(p, p.conj())
    units = torch.eye(size, dtype=whole.dtype)
    # B^T (z - A)^-1 B does not depend on the basis: V is unitary
    for z in (0.3 + 0.7j, 5j, 2.0):
        dense = b.to(units) @ torch.linalg.solve(z * units - a, b.to(units))
        modal = bt.conj() @ torch.linalg.solve(z * units - whole, bt)
        torch.testing.assert_close(modal, dense)


def test_largest_frequency() -> None:
    omega, _, _ = legs_modes(64)
    assert omega[-1].item() == pytest.approx(1303, abs=1)
    assert (omega.diff() > 0).all()
    assert omega[0] > 0


def test_clip_leaves_real_parts() -> None:
    _, _, b = legs_modes(16)
    assert b.imag.abs().max() > 2
    assert clipped(b).imag.abs().max() == 2
    assert torch.equal(clipped(b).real, b.real)
