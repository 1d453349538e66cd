"""The gated recursive cell: its equation, its closed form and its dropout."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.encoders.base import draw_bits, dropout, dropping
from lrbench.encoders.grc.cell import PIECE, GatedRecursiveCell
from lrbench.models.build import count_parameters


def cell_of(width: int, dropout: float = 0.3) -> GatedRecursiveCell:
    torch.manual_seed(0)
    return GatedRecursiveCell(width, dropout).double()


def by_hand(cell: GatedRecursiveCell, left: Tensor, right: Tensor) -> Tensor:
    """The equation, number by number."""
    d = cell.width
    pre = cell.first.weight @ torch.cat([left, right]) + cell.first.bias
    u = pre * 0.5 * (1 + torch.erf(pre / 2**0.5))
    v = cell.second.weight @ u + cell.second.bias
    a, b, g, c = v[:d], v[d : 2 * d], v[2 * d : 3 * d], v[3 * d :]
    s = left / (1 + (-a).exp()) + right / (1 + (-b).exp()) + c / (1 + (-g).exp())
    normal = (s - s.mean()) / (((s - s.mean()) ** 2).mean() + 1e-5).sqrt()
    return normal * cell.norm.weight + cell.norm.bias


def test_the_cell_is_its_equation() -> None:
    cell = cell_of(6)
    with torch.no_grad():
        cell.norm.weight.uniform_(0.5, 2)
        cell.norm.bias.normal_()
    pairs = torch.randn(3, 12, dtype=torch.float64)
    expected = torch.stack([by_hand(cell, pair[:6], pair[6:]) for pair in pairs])
    torch.testing.assert_close(cell(pairs), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cell.reference(pairs), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("width", [5, 8, 16])
@pytest.mark.parametrize("training", [False, True])
def test_closed_form_equals_autograd(
    width: int, training: bool, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", compiled)
    cell = cell_of(width)
    pairs = torch.randn(PIECE + 3, 2 * width, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(PIECE + 3, width, dtype=torch.float64)
    found = []
    for way in (cell.forward, cell.reference):
        y = way(pairs, torch.Generator().manual_seed(1) if training else None)
        found.append([y, *torch.autograd.grad((y * weight).sum(), [pairs, *cell.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_without_gradients_pieces_give_the_same() -> None:
    cell = cell_of(8)
    pairs = torch.randn(2 * PIECE + 1, 16, dtype=torch.float64)
    expected = cell(pairs, torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = cell(pairs, torch.Generator().manual_seed(1))
    assert torch.equal(found, expected)


def test_parameters_of_the_paper() -> None:
    assert count_parameters(GatedRecursiveCell(128, 0.1)) == 394_496


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_dropout_drops_the_share_and_keeps_the_mean(share: float) -> None:
    x = torch.ones(200_000)
    y = dropout(x, share, torch.Generator().manual_seed(0))
    dropped = float((y == 0).double().mean())
    assert abs(dropped - share) < 5 * (share * (1 - share) / len(x)) ** 0.5
    kept = y[y != 0]
    assert kept.unique().numel() == 1
    assert float(kept[0]) == pytest.approx(1 / (1 - share), rel=1e-4)


def test_dropout_is_the_generators_and_off_without_one() -> None:
    x = torch.randn(3, 7)
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, torch.Generator()) is x
    first, second = (dropout(x, 0.5, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, second)


def test_bits_are_uniform() -> None:
    bits = draw_bits((1 << 18,), torch.Generator().manual_seed(0), "cpu").to(torch.int64)
    counts = torch.histc(bits.double(), 16, -(1 << 15), 1 << 15)
    expected = len(bits) / 16
    assert float(((counts - expected) ** 2 / expected).sum()) < 37.7  # chi squared, 0.1 %
    assert int(bits.min()) < -32700 and int(bits.max()) > 32700
    assert draw_bits((3, 7), torch.Generator(), "cpu").shape == (3, 7)


def test_the_smallest_share_that_is_kept() -> None:
    assert dropping(0.999999).scale == 1 << 16
