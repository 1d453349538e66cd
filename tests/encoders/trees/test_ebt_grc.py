"""EBT-GRC: two passes against the released form; trees; what the beam computes by enumeration."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.encoders.trees.ebt_grc import EbtGrc, EbtGrcConfig
from lrbench.kernels.choice import SWITCH

from ..agreement import assert_same_as_reference

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 3])
MASK = torch.arange(13) < LENGTHS[:, None]


def encoder_of(seed: int = 0, width: int = 8, **settings: Any) -> EbtGrc:
    torch.manual_seed(seed)
    encoder = EbtGrc(EbtGrcConfig(**settings), width).double()
    with torch.no_grad():  # so that pairs differ in score
        encoder.scorer.second.weight *= 8
    return encoder


def inputs(mask: Tensor = MASK, width: int = 8) -> Tensor:
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(*mask.shape, width, generator=drawn, dtype=torch.float64) * mask[..., None]


@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("beam", [1, 2, 5, 7])
def test_two_passes_equal_the_released_form(
    beam: int, trains: bool, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, compiled)
    for seed in range(2):
        encoder, x = encoder_of(seed, beam=beam, dropout=0.3), inputs().requires_grad_()
        assert_same_as_reference(encoder, x, MASK, seed if trains else None, atol=1e-12)


def leaves_of(encoder: EbtGrc, x: Tensor) -> list[Tensor]:
    return list(encoder.leaf(x).unbind(0))


def orders(encoder: EbtGrc, h: list[Tensor], score: Tensor) -> list[tuple[Tensor, Tensor]]:
    """All ways to merge neighbours until one is left: (score, vector) of each."""
    if len(h) == 1:
        return [(score, h[0])]
    pairs = torch.stack(h[:-1]), torch.stack(h[1:])
    logs = encoder.scorer(*pairs).log_softmax(0)
    merged = encoder.cell.reference(torch.cat(pairs, 1))
    found = []
    for at, log in enumerate(logs.unbind(0)):
        rest = [*h[:at], merged[at], *h[at + 2 :]]
        found += orders(encoder, rest, score + (log if len(h) > 2 else 0))
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_wide_beam_is_all_orders_of_merges(length: int) -> None:
    encoder = encoder_of(beam=24)
    x = inputs()[:1, :length].requires_grad_()
    mask = torch.ones(1, length, dtype=torch.bool)
    found = orders(encoder, leaves_of(encoder, x[0]), torch.zeros((), dtype=torch.float64))
    scores, vectors = (torch.stack(each) for each in zip(*found, strict=True))
    assert len(scores) == (1, 1, 2, 6, 24)[length - 1]
    expected, weight = scores.softmax(0) @ vectors, torch.randn(8, dtype=torch.float64)
    encoder.cell.dropout = 0.0
    for trains in (None, torch.Generator().manual_seed(0)):  # noise changes no more than the order
        y = encoder(x, mask, trains)[0]
        torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-12)
        slopes = [torch.autograd.grad(v @ weight, x, retain_graph=True)[0] for v in (y, expected)]
        torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)


def test_one_beam_is_greedy() -> None:
    encoder, x = encoder_of(beam=1), inputs()
    found, trees = encoder(x, MASK), encoder.trees(x, MASK)
    for n, length in enumerate(LENGTHS.tolist()):
        h = leaves_of(encoder, x[n, :length])
        tree: list[object] = list(range(length))
        while len(h) > 1:
            at = int(torch.stack([encoder.scorer(*pair) for pair in pairwise(h)]).argmax())
            h[at : at + 2] = [encoder.cell.reference(torch.cat(h[at : at + 2])[None])[0]]
            tree[at : at + 2] = [tuple(tree[at : at + 2])]
        torch.testing.assert_close(found[n], h[0], rtol=1e-9, atol=1e-12)
        assert trees[n] == tree[0]


def test_the_scorer_learns() -> None:
    encoder = encoder_of()
    encoder(inputs(), MASK, torch.Generator().manual_seed(0)).square().sum().backward()
    for parameter in (encoder.scorer.first.weight, encoder.scorer.second.weight):
        assert parameter.grad is not None
        assert float(parameter.grad.norm()) > 1e-6


def test_a_merge_is_made_once() -> None:
    """Beams differ mostly in the order of merges: the same pair of nodes is one node."""
    search = encoder_of(beam=7)._search(inputs(), MASK, None)
    made = search.nodes.count
    pairs = torch.stack([search.nodes.left[:made], search.nodes.right[:made]], 1)
    merges = pairs[1 + len(search.leaves) :]
    assert len(merges.unique(dim=0)) == len(merges)
    assert len(merges) < 0.8 * 7 * int((LENGTHS - 1).sum())


def test_more_padding_changes_nothing() -> None:
    encoder = encoder_of()
    x, mask = pad(inputs(), (0, 0, 0, 9)), pad(MASK, (0, 9))
    assert torch.equal(encoder(x, mask), encoder(inputs(), MASK))
    alone = encoder(inputs()[:1, :5], MASK[:1, :5])
    torch.testing.assert_close(encoder(inputs(), MASK)[:1], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("beam", [1, 5])
def test_one_long_string_stands_beside_many_short_ones(beam: int) -> None:
    """Pairs of padding are scored, too: there are many more of them than of symbols."""
    torch.manual_seed(0)
    encoder = EbtGrc(EbtGrcConfig(beam=beam), 8).double()
    mask = torch.arange(40) < torch.tensor([40] + [1, 2] * 40)[:, None]
    x = torch.randn(*mask.shape, 8, dtype=torch.float64) * mask[..., None]
    with torch.no_grad():
        torch.testing.assert_close(encoder(x, mask)[:1], encoder(x[:1], mask[:1]))
