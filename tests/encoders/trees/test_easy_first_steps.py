"""A step of the search: compiled and in torch, equal scores and invalid pairs included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.encoders.trees.choice import (
    Beams,
    ChosenMerges,
    Draws,
    choose_fast,
    move,
    noise_of,
)
from lrbench.encoders.trees.pair_scores import PairScorer, slopes
from lrbench.kernels.choice import SWITCH

LEFT = torch.tensor([6, 4, 1])


def beams_of(width: int) -> Beams:
    drawn = torch.Generator().manual_seed(0)
    numbers = torch.randint(12, (3, width, 6), generator=drawn)  # some pairs are there twice
    shares = torch.rand(3, width, 6, generator=drawn, dtype=torch.float64)
    scores = torch.randn(3, width, generator=drawn, dtype=torch.float64)
    valid = torch.arange(width).expand(3, -1) != 1
    return Beams(torch.arange(3), LEFT, numbers, scores, valid, shares)


def stepped(width: int, beam: int, noisy: bool) -> list[Tensor]:
    scores = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    beams = beams_of(width)
    draws = Draws(torch.Generator().manual_seed(2)) if noisy else None
    noise = noise_of(draws, 0, beams.pairs.shape, beam, scores)
    chosen = choose_fast(scores, beams, beam, noise)
    made = 100 + torch.arange(2 * chosen.positions.numel()).view(*chosen.positions.shape, 2)
    numbers, shares = move(beams, chosen, made)
    assert shares is not None and beams.shares is not None
    return [*vars(chosen).values(), beams.shares, numbers, shares]


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("width", "beam"), [(1, 1), (1, 3), (1, 9), (3, 3), (2, 5), (4, 7)])
def test_compiled_steps_are_those_of_torch(
    width: int, beam: int, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for switch in ("0", "1"):
        monkeypatch.setenv(SWITCH, switch)
        found.append(stepped(width, beam, noisy))
    for plain, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("switch", ["0", "1"])
def test_a_merge_ends_three_pairs(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    numbers = torch.tensor([[[1, 2, 3, 4]]])
    valid = torch.ones(1, 1, dtype=torch.bool)
    for place, expected in ((0, [91, 3, 4]), (1, [90, 91, 4]), (3, [1, 2, 90])):
        at = torch.tensor([[place]])
        chosen = ChosenMerges(torch.zeros_like(at), at, torch.zeros(1, 1), valid)
        left, shares = torch.tensor([4]), torch.ones(1, 1, 4)
        beams = Beams(at[0], left, numbers, torch.zeros(1, 1), valid, shares)
        after, moved = move(beams, chosen, torch.tensor([[[90, 91]]]))
        assert after.tolist() == [[expected]]
        assert moved is not None
        assert moved[0, 0].tolist() == [float(pair < 90) for pair in expected]


@pytest.mark.parametrize("switch", ["0", "1"])
@pytest.mark.parametrize("features", [5, 8, 16])
def test_scores_and_slopes_are_those_of_the_equation(
    features: int, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    torch.manual_seed(0)
    scorer = PairScorer(features).double()
    nodes = torch.randn(6, 2 * features, dtype=torch.float64, requires_grad=True)
    left, right = torch.tensor([0, 1, 2, 1, 5]), torch.tensor([1, 2, 3, 2, 0])
    gradient = torch.randn(5, dtype=torch.float64)
    scores = scorer(nodes[left], nodes[right])
    sides = scorer.sides(nodes).detach()
    torch.testing.assert_close(scorer.of_pairs(sides, left, right), scores.detach())
    expected = torch.autograd.grad((scores * gradient).sum(), [*scorer.parameters(), nodes])
    weights = tuple(weight.detach() for weight in scorer.weights())
    found = slopes(weights, nodes.detach(), left, right, gradient)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.view_as(theirs), theirs)


def test_scores_that_are_no_numbers_choose_by_place() -> None:
    """A model that diverged: nothing is read that was never written."""
    scores, beams = torch.full((12,), torch.nan, dtype=torch.float64), beams_of(3)
    beams.scores.fill_(torch.nan)
    chosen = choose_fast(scores, beams, 2, (None, None))
    assert chosen.parents.max() < 3 and 0 <= chosen.positions.min() <= chosen.positions.max() < 6
    assert chosen.parents.tolist() == [[0, 0]] * 3
