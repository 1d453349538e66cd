"""Chunks of matrix states are the recurrence written out, for decays of any sign."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.scan.matrix.duality import MODES, POSITIONS, Writes, decay_products, dual_scan

pytestmark = pytest.mark.usefixtures("chunks")
BATCH, HEADS, VALUES, SIZE = 2, 3, 4, 5


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def leaves(length: int, shared: bool, later: bool, signed: bool) -> list[Tensor]:
    """Return leaves: decays, keys, values, queries, the state before, now and maybe later."""
    heads = 1 if shared else HEADS
    decays = draw(BATCH, length, HEADS, seed=0)
    decays = decays.tanh() if signed else decays.sigmoid()
    decays[:, length // 2] = 0  # a gate that closes wholly, which has no logarithm
    found = [
        decays,
        draw(BATCH, length, heads, SIZE, seed=1),
        draw(BATCH, length, HEADS, VALUES, seed=2),
        draw(BATCH, length, heads, SIZE, seed=3),
        draw(BATCH, HEADS, VALUES, SIZE, seed=4),
        draw(BATCH, length, HEADS, seed=5),
    ]
    found += [draw(BATCH, length, HEADS, seed=6)] if later else []
    return [leaf.requires_grad_() for leaf in found]


def ours(mode: str, found: list[Tensor]) -> tuple[Tensor, Tensor]:
    decays, keys, values, queries, initial, now, *later = found
    return dual_scan(decays, Writes(keys, values, now, *later), queries, initial, mode)


def by_hand(found: list[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Compute it with numpy, number by number."""
    decays, keys, values, queries, initial, now, *later = (x.detach().numpy() for x in found)
    batch, length, heads = decays.shape
    outputs, last = np.zeros((batch, length, heads, VALUES)), initial.copy()
    for b in range(batch):
        for h in range(heads):
            own = h % keys.shape[2]
            for t in range(length):
                outer = np.outer(values[b, t, h], keys[b, t, own])
                last[b, h] = decays[b, t, h] * last[b, h] + now[b, t, h] * outer
                outputs[b, t, h] = last[b, h] @ queries[b, t, own]
                if later:
                    last[b, h] += later[0][b, t, h] * outer
    return outputs, last


def gradients(result: tuple[Tensor, Tensor], found: list[Tensor]) -> tuple[Tensor, ...]:
    loss = sum((part * draw(*part.shape, seed=9)).sum() for part in result)
    assert isinstance(loss, Tensor)
    return torch.autograd.grad(loss, found)


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("length", [1, 7, POSITIONS, POSITIONS + 1, 125])
def test_modes_are_the_recurrence(length: int, shared: bool, later: bool, signed: bool) -> None:
    found = leaves(length, shared, later, signed)
    expected = [torch.from_numpy(part) for part in by_hand(found)]
    slopes = gradients(ours("sequential", found), found)
    for mode in MODES:
        result = ours(mode, found)
        torch.testing.assert_close(list(result), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(gradients(result, found), slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 9])
def test_products_by_rows_are_exponentials_of_sums(length: int) -> None:
    """As public code has them, where all decays are positive."""
    decays = draw(3, 2, length, seed=0).sigmoid()
    sums = torch.cat([decays.new_zeros(3, 2, 1), decays.log().cumsum(-1)], -1)
    expected = (sums[..., 1:, None] - sums[..., None, :]).exp()
    ones = torch.ones(length, length + 1, dtype=torch.bool).tril(1)
    torch.testing.assert_close(decay_products(decays), expected.where(ones, 0.0))


def test_another_mode_is_refused() -> None:
    with pytest.raises(UserError, match="mode"):
        ours("parallel", leaves(2, True, False, False))
