"""Sinusoids, rotations, distances and random draws, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.mixers.attention.transformer import (
    INCREMENT,
    RandomPositions,
    distance_penalties,
    rotated,
    scrambled,
    sinusoids,
    sorted_draw,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_positions(seed: int = 0, span: int = 50, longest: int = 12) -> RandomPositions:
    torch.manual_seed(seed)
    return RandomPositions(span, longest)


@pytest.mark.parametrize("width", [1, 6, 7])
def test_sinusoids_are_the_formula(width: int) -> None:
    found = sinusoids(torch.tensor([0, 3, 1000]), width)
    assert found.shape == (3, width)
    for row, position in enumerate((0, 3, 1000)):
        for i in range(width):
            angle = position / 10_000 ** ((i - i % 2) / width)
            wanted = math.cos(angle) if i % 2 else math.sin(angle)
            assert float(found[row, i]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("width", [2, 6])
def test_rotations_are_products_of_complex_numbers(width: int) -> None:
    x, positions = draw(2, 3, 4, width), torch.tensor([0, 1, 5, 2047])
    half = width // 2
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(half).double() * 2 / width)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
        torch.ones_like(angles), angles
    )
    wanted = torch.cat([turned.real, turned.imag], dim=-1)
    torch.testing.assert_close(rotated(x, positions), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [1, 5, 6])
def test_products_of_rotated_vectors_depend_on_their_distance_alone(width: int) -> None:
    q, k = draw(1, width), draw(1, width, seed=1)

    def product(at: int, other: int) -> float:
        return float((rotated(q, torch.tensor([at])) * rotated(k, torch.tensor([other]))).sum())

    for distance in (0, 1, 17):
        wanted = product(distance, 0)
        assert [product(s + distance, s) for s in (1, 40, 2000)] == pytest.approx([wanted] * 3)
    if width > 1:
        assert abs(product(1, 0) - product(0, 0)) > 1e-3


def test_an_odd_feature_is_left_as_it_is() -> None:
    x = draw(4, 5)
    assert torch.equal(rotated(x, torch.arange(4))[:, 4], x[:, 4])


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_penalties_are_slopes_times_distances(heads: int) -> None:
    found = distance_penalties(torch.tensor([4, 9]), torch.tensor([0, 4, 7]), heads)
    for h in range(heads):
        slope = 2 ** (-8 * (h + 1) / heads)
        wanted = [[-slope * (i - j) for j in (0, 4, 7)] for i in (4, 9)]
        torch.testing.assert_close(found[h], torch.tensor(wanted, dtype=torch.float64))


def test_scrambling_is_splitmix64() -> None:
    """The first three numbers of the published generator from seed 0."""
    states = torch.arange(1, 4) * INCREMENT
    found = [number % 2**64 for number in scrambled(states).tolist()]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_draws_are_sorted_distinct_in_range_and_different() -> None:
    draws = [sorted_draw(torch.tensor(3), torch.tensor(i), 50, 7) for i in range(200)]
    for positions in draws:
        assert bool((positions.diff() > 0).all())
        assert set(positions.tolist()) <= set(range(50))
    assert len({tuple(positions.tolist()) for positions in draws}) == 200
    assert torch.equal(sorted_draw(draws[0][0], draws[0][1], 9, 9), torch.arange(9))


def test_every_position_is_drawn_as_often() -> None:
    span, length, times = 20, 5, 4000
    counts = torch.zeros(span)
    for i in range(times):
        counts[sorted_draw(torch.tensor(11), torch.tensor(i), span, length)] += 1
    expected = times * length / span
    # the sum of squares of 20 counts of variance n p (1 - p), p = 1/4: 99.9 % are below 43.8
    chi = float(((counts - expected) ** 2).sum() / (expected * (1 - length / span)))
    assert chi * (span - 1) / span < 43.8


def test_strings_outside_training_share_one_draw_whatever_the_cut() -> None:
    positions = random_positions()
    whole = positions(0, 12, False)
    assert torch.equal(positions(5, 4, False), whole[:9])
    assert positions.drawn == 0
    assert not torch.equal(random_positions(seed=1)(0, 12, False), whole)


def test_training_draws_anew_and_a_restored_copy_goes_on_the_same() -> None:
    positions, restored = random_positions(), random_positions(seed=5)
    first, second = positions(0, 9, True), positions(0, 9, True)
    assert not torch.equal(first, second)
    restored.load_state_dict(positions.state_dict())
    assert torch.equal(restored(0, 9, True), positions(0, 9, True))
    again = random_positions()
    assert torch.equal(again(0, 9, True), first)


def test_layers_of_one_model_draw_the_same() -> None:
    torch.manual_seed(4)
    one = RandomPositions(50, 12)
    torch.randn(3)  # weights between them
    other = RandomPositions(50, 12)
    assert torch.equal(one(0, 9, True), other(0, 9, True))


@pytest.mark.parametrize(
    ("words", "first", "length", "drawing"),
    [
        ("longest to at least 13", 10, 3, False),
        ("position_range .now 50. beyond", 0, 60, False),
        ("position_range to at least 51", 0, 51, True),
        ("read whole", 3, 2, True),
    ],
)
def test_what_cannot_be_read_is_reported(
    words: str, first: int, length: int, drawing: bool
) -> None:
    with pytest.raises(UserError, match=words):
        random_positions()(first, length, drawing)
