"""BT-GRC OS: the soft beam against the released products and by hand; evaluation is BT-GRC's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.encoders.trees import bt_grc_os
from lrbench.encoders.trees.bt_grc import BtGrc, BtGrcConfig
from lrbench.encoders.trees.bt_grc_os import (
    BtGrcOs,
    BtGrcOsConfig,
    MixedChoice,
    Training,
    VectorBeams,
    mixed,
    moved,
)
from lrbench.encoders.trees.choice import Draws
from lrbench.encoders.trees.reference import merged
from lrbench.models.classifier import Classifier, ClassifierConfig

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9, 3, 4])


def encoder_of(**settings: Any) -> BtGrcOs:
    torch.manual_seed(0)
    encoder = BtGrcOs(BtGrcOsConfig(**settings), 8).double()
    with torch.no_grad():
        encoder.scorer.weight.mul_(3)
    return encoder


def strings() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    mask = torch.arange(13) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, 8, dtype=torch.float64) * mask[..., None]
    return x.requires_grad_(), mask


@pytest.mark.slow
@pytest.mark.parametrize("kept", [1, 1 << 16])
@pytest.mark.parametrize(
    "settings",
    [{}, {"noise": False}, {"beam": 2, "dropout": 0.4}, {"dropout": 0.0}, {"beam": 1}],
)
def test_training_is_the_released_one(
    settings: dict[str, Any], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Value and gradient, with the same draws; dropout of 0 is that of parents that stand."""
    monkeypatch.setattr(bt_grc_os, "KEPT", kept)
    encoder = encoder_of(**settings)
    x, mask = strings()
    weight, found = torch.randn(len(x), 8, dtype=torch.float64), []
    leaves = [x, *encoder.parameters()]
    for way in (encoder.forward, encoder.reference):
        y = way(x, mask, torch.Generator().manual_seed(3))
        slopes = torch.autograd.grad((y * weight).sum(), leaves, materialize_grads=True)
        found.append([y, *slopes])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_evaluation_is_a_plain_beam() -> None:
    encoder = encoder_of()
    plain = BtGrc(BtGrcConfig(), 8).double()
    plain.load_state_dict(encoder.state_dict())
    x, mask = strings()
    assert torch.equal(encoder(x, mask), plain(x, mask))
    assert encoder.trees(x, mask) == plain.trees(x, mask)
    expected = encoder.reference(x, mask)
    torch.testing.assert_close(encoder(x, mask), expected, rtol=1e-10, atol=1e-12)


def test_soft_weights_sum_to_one() -> None:
    encoder = encoder_of()
    e = torch.randn(4, 5, 7, dtype=torch.float64)
    counts = torch.tensor([7, 5, 3, 2])
    nodes = VectorBeams(
        torch.arange(4),
        counts,
        torch.zeros(4, 5, 8, 8, dtype=torch.float64),
        torch.randn(4, 5, dtype=torch.float64),
        torch.ones(4, 5, dtype=torch.bool),
    )
    draws = Draws.by_step(torch.Generator().manual_seed(0))
    assert draws is not None
    choice = encoder._choose(nodes, e, 0, Training(draws, True))
    assert choice.soft is not None
    owners, shares = choice.soft
    one = torch.ones(4, dtype=torch.float64)
    torch.testing.assert_close(owners.sum(1), one, rtol=0, atol=1e-12)
    torch.testing.assert_close(shares.sum(1), one, rtol=0, atol=1e-12)
    behind = torch.arange(7) >= counts[:, None]
    assert float(shares[behind].max()) < 1e-18, "nothing of pairs that are not there"
    assert choice.origin.shape == (4, 4) and choice.scores.shape == (4, 5)
    best = choice.scores[:, :4]
    assert torch.equal(best, best.sort(descending=True).values)
    assert bool((choice.scores[:, 4] <= best[:, 3]).all()), "a mixture of worse ones"


def test_a_merge_by_hand() -> None:
    """Three nodes 1, 2, 4 with parents 10, 20: the choice says which, by shares in between."""
    h = torch.tensor([1.0, 2.0, 4.0])[:, None]
    parents = torch.tensor([10.0, 20.0])[:, None]
    for shares, expected in (
        ((1.0, 0.0), (10.0, 4.0)),
        ((0.0, 1.0), (1.0, 20.0)),
        ((0.25, 0.75), (0.25 * 10 + 0.75 * 1, 0.75 * 20 + 0.25 * 4)),
    ):
        found = merged(h, parents, torch.tensor(shares)).squeeze(1)
        assert found.tolist() == pytest.approx(expected)


def test_a_soft_beam_by_hand() -> None:
    """Two beams of nodes, a third and two thirds of them, and of their parents."""
    h = torch.tensor([[[1.0, 2.0, 4.0], [3.0, 6.0, 9.0]]])[..., None]
    parents = torch.tensor([[[10.0, 20.0], [30.0, 40.0]]])[..., None]
    owners, shares = torch.tensor([[1 / 3, 2 / 3]]), torch.tensor([[0.25, 0.75]])
    empty = torch.zeros(1, 0, dtype=torch.int64)
    choice = MixedChoice(empty, empty, torch.zeros(1, 1), torch.ones(1, 1) > 0, (owners, shares))
    nodes = [7 / 3, 14 / 3, 22 / 3]
    both = [70 / 3, 100 / 3]
    expected = [0.25 * both[0] + 0.75 * nodes[0], 0.75 * both[1] + 0.25 * nodes[2]]
    assert mixed(h, parents, choice).flatten().tolist() == pytest.approx(expected)


def test_hard_beams_move_to_the_left_behind_a_merge() -> None:
    table = torch.tensor([[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]])[..., None]
    new = 10 * torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])[..., None]
    choice = MixedChoice(
        torch.tensor([[1, 0, 1]]), torch.tensor([[0, 2, 1]]), torch.zeros(1), torch.zeros(1)
    )
    assert moved(table, new, choice)[0, :, :, 0].tolist() == [[40, 6, 7], [0, 1, 30], [4, 50, 7]]
    assert moved(table, None, choice)[0, :, :, 0].tolist() == [[4, 6, 7], [0, 1, 2], [4, 5, 7]]


@pytest.mark.slow
@pytest.mark.parametrize("reuse", [False, True])
def test_dropout_has_the_derivative_of_what_it_did(reuse: bool) -> None:
    torch.manual_seed(0)
    encoder = BtGrcOs(BtGrcOsConfig(dropout=0.5, reuse_dropout=reuse, beam=3), 4).double()
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    x = (torch.randn(2, 5, 4, dtype=torch.float64) * mask[..., None]).requires_grad_()

    def run(x: Tensor) -> Tensor:
        return encoder(x, mask, torch.Generator().manual_seed(1))

    assert torch.autograd.gradcheck(run, (x,))


def test_parameters_are_those_of_the_paper() -> None:
    encoder = BtGrcOs(BtGrcOsConfig(), 128)
    model = Classifier(ClassifierConfig(), encoder, 15, 10)
    assert sum(p.numel() for p in model.parameters()) == 431_499
