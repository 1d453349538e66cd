"""How often the generators draw what they choose: against exact chances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2
from torch import Tensor

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.stream import Stream

ROWS = 20_000


def drawn(name: str, length: int, rows: int = ROWS) -> tuple[Any, Tensor]:
    task = make_task(TASKS.get(f"nnch_{name}").config())
    batch = task.sample(Stream.named(1, "statistics"), 0, rows, length, "cpu")
    return task, batch.tokens[:, :length]


def assert_chances(values: Any, chances: Sequence[float]) -> None:
    """Chi-square against chances of 0, 1, ..: at p = 1e-4, of strings that are always the same."""
    drawn = torch.as_tensor(values).flatten().long()
    counts = torch.bincount(drawn, minlength=len(chances)).double()
    assert len(counts) == len(chances)
    wanted = torch.tensor(chances, dtype=torch.float64) * counts.sum()
    assert (counts[wanted == 0] == 0).all()
    there = wanted > 0
    statistic = float(((counts - wanted)[there] ** 2 / wanted[there]).sum())
    assert statistic <= (chi2.ppf(1 - 1e-4, int(there.sum()) - 1) if there.sum() > 1 else 0)


def uniform(n: int) -> list[float]:
    return [1 / n] * n


@pytest.mark.parametrize(
    ("name", "symbols"),
    [
        ("parity_check", 2),
        ("even_pairs", 2),
        ("cycle_navigation", 3),
        ("reverse_string", 2),
        ("duplicate_string", 2),
        ("odds_first", 2),
        ("bucket_sort", 5),
    ],
)
def test_uniform_symbols(name: str, symbols: int) -> None:
    for position in (0, 6):
        assert_chances(drawn(name, 7)[1][:, position], uniform(symbols))


def test_digits_and_operators_without_brackets() -> None:
    tokens = drawn("modular_arithmetic", 7)[1]
    assert_chances(tokens[:, 0::2], uniform(5))
    assert_chances(tokens[:, 1::2] - 5, uniform(3))


@pytest.mark.parametrize(
    ("name", "plus", "operators", "brackets", "tail"),
    [
        ("modular_arithmetic_brackets", 5, 3, (8, 9), 0),
        ("solve_equation", 5, 2, (7, 8), 2),
    ],
)
def test_splits_of_expressions(
    name: str, plus: int, operators: int, brackets: tuple[int, int], tail: int
) -> None:
    """The top bracket's operator and what stands left of it; the digits; every string a tree."""
    length = 20
    tokens = drawn(name, length + tail)[1][:, :length].numpy()
    opening, closing = brackets
    depth = np.cumsum((tokens == opening).astype(int) - (tokens == closing), 1)
    assert (depth[:, :-1] >= 1).all()
    assert (depth[:, -1] == 0).all()
    is_operator = (tokens >= plus) & (tokens < plus + operators) & (depth == 1)
    before = np.roll(tokens, 1, axis=1)
    binary = is_operator & ((before < 5) | (before == closing) | (before == closing + 1))
    assert (binary.sum(1) == 1).all()
    place = binary.argmax(1)
    assert_chances(place - 2, uniform(length - 4))  # |A| from 1 to n - 4, after one bracket
    row = np.arange(len(tokens))
    assert_chances(tokens[row, place] - plus, uniform(operators))
    for digit in (place == 2) & (tokens[:, 1] < 5), (place == 16) & (tokens[:, 18] < 5):
        assert digit.sum() > 500
    assert_chances(tokens[(place == 2) & (tokens[:, 1] < 5), 1], uniform(5))


def chances_of_values(length: int) -> NDArray[np.float64]:
    """The exact chances of values mod 5 of expressions, by length: (length + 1, 5)."""
    chances = np.full((length + 1, 5), 0.2)
    left, right = np.indices((5, 5))
    for size in range(5, length + 1):
        pairs = sum(np.outer(chances[a], chances[size - 3 - a]) for a in range(1, size - 3))
        total = np.zeros(5)
        for value in (left + right, left - right, left * right):
            np.add.at(total, value % 5, pairs / (size - 4) / 3)
        chances[size] = total
    return chances


@pytest.mark.parametrize("length", [5, 9, 40])
def test_values_of_expressions(length: int) -> None:
    task, tokens = drawn("modular_arithmetic_brackets", length)
    chances = chances_of_values(length)[length]
    assert_chances(task._outputs(tokens)[:, 0], chances.tolist())
    if length == 40:
        assert chances.max() == pytest.approx(0.2916, abs=1e-4)  # the answer 0: chance is not 0.2


def test_hidden_digits() -> None:
    """Of ( d + d ) = v the search begins at five places: ( and d find the first, + and d the other.

    From ) it goes round to the first again.
    """
    task, tokens = drawn("solve_equation", 7)
    assert_chances((tokens == task.vocabulary.index("x")).long().argmax(1) == 3, [3 / 5, 2 / 5])
    assert_chances(task._outputs(tokens)[:, 0], uniform(5))


def test_stacks() -> None:
    """Bits, then actions: their number is uniform, and an action each of three alike."""
    tokens = drawn("stack_manipulation", 9)[1]
    is_bit = tokens < 2
    assert (is_bit.long().diff(dim=1) <= 0).all()
    assert_chances(is_bit.sum(1) - 1, uniform(8))
    assert_chances(tokens[is_bit], uniform(2))
    assert_chances(tokens[~is_bit] - 2, uniform(3))


@pytest.mark.parametrize("length", [8, 9])
def test_holes(length: int) -> None:
    tokens = drawn("missing_duplicate_string", length)[1]
    assert ((tokens == 2).sum(1) == 1).all()
    assert_chances((tokens == 2).long().argmax(1), uniform(8))
    assert_chances(tokens[tokens < 2], uniform(2))
    if length == 9:
        assert (tokens[:, -1] == 3).all()


@pytest.mark.parametrize("name", ["binary_addition", "binary_multiplication"])
def test_numbers(name: str) -> None:
    task, tokens = drawn(name, 8)
    sign = (tokens == 2).long().argmax(1)
    assert_chances(sign - 1, uniform(6))  # l from 1 to L - 2
    numbers = np.array([task.split(row) for row in tokens.tolist()])
    assert numbers.shape == (ROWS, 2)
    for bits in (1, 3, 6):
        chances = [0.0, *uniform(2**bits - 1)]
        assert_chances(numbers[(sign == bits).numpy(), 0], chances)
        assert_chances(numbers[(sign == 7 - bits).numpy(), 1], chances)
    assert_chances(drawn(name, 2)[1] @ torch.tensor([1, 2]), uniform(3))  # 0 to 2^L - 2


@pytest.mark.parametrize(("name", "first"), [("binary_addition", 40), ("compute_sqrt", None)])
def test_long_numbers_are_uniform_bits(name: str, first: int | None) -> None:
    tokens = drawn(name, 100)[1]
    if first is not None:
        tokens = tokens[tokens[:, first] == 2, :first]
    assert_chances(tokens, uniform(2))
    assert_chances(tokens[:, 0] * 2 + tokens[:, -1], uniform(4))


def test_numbers_to_take_roots_of() -> None:
    powers = 2 ** torch.arange(4).flip(0)
    assert_chances(drawn("compute_sqrt", 4)[1] @ powers, [0.0, *uniform(15)])
