"""Every scan algorithm computes what the reference computes, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from lrbench.errors import UserError
from lrbench.scan import ALGORITHMS, BlockDiagonal, Diagonal, Indexed, scan

from .conftest import KINDS, make_recurrence

FAST = sorted(set(ALGORITHMS) - {"reference"})
Make = Callable[..., Any]


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 40, 129])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", FAST)
def test_equals_the_reference(recurrence: Make, algorithm: str, kind: str, length: int) -> None:
    case = recurrence(kind, length)
    close(case.states(algorithm), case.states("reference"))
    close(case.gradients(algorithm), case.gradients("reference"))


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_gradients_are_derivatives(
    recurrence: Make, algorithm: str, kind: str, length: int
) -> None:
    case = recurrence(kind, length, batch=2, symbols=2)
    assert gradcheck(lambda *leaves: case.states(algorithm, *leaves), case.leaves)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(length=st.integers(2, 20), cut=st.integers(1, 19), seed=st.integers(0, 99))
def test_state_carries_across_any_split(
    algorithm: str, kind: str, length: int, cut: int, seed: int
) -> None:
    case = make_recurrence(kind, length, seed=seed)
    cut = min(cut, length - 1)
    transition, b, x = case.wrap(case.leaves[0]), case.leaves[1], case.leaves[2]

    def piece(part: slice) -> tuple[Any, Any]:
        if isinstance(transition, Indexed):
            return Indexed(transition.table, transition.index[:, part]), b
        if "constant" in kind:
            return transition, b[:, part]
        values = case.leaves[0][:, part]
        return type(transition)(values), b[:, part]

    with torch.no_grad():
        first = scan(*piece(slice(cut)), x, algorithm)
        second = scan(*piece(slice(cut, None)), first[:, -1], algorithm)
        close(torch.cat([first, second], 1), case.states(algorithm))


def test_reference_is_the_recurrence_by_hand() -> None:
    a = torch.tensor([[[[[0.0, 1.0], [1.0, 0.0]]], [[[2.0, 0.0], [0.0, 3.0]]]]])  # swap, then scale
    b = torch.tensor([[[[0.0, 1.0]], [[1.0, 0.0]]]])
    states = scan(BlockDiagonal(a), b, torch.tensor([[[5.0, 7.0]]]), "reference")
    assert states.tolist() == [[[[7.0, 6.0]], [[15.0, 18.0]]]]


def test_rows_are_contracted_over_columns() -> None:
    a = torch.zeros(1, 1, 1, 2, 2)
    a[..., 0, 1] = 1.0  # row 0 reads column 1
    for algorithm in ALGORITHMS:
        inputs, initial = torch.zeros(1, 1, 1, 2), torch.tensor([[[0.0, 4.0]]])
        states = scan(BlockDiagonal(a), inputs, initial, algorithm)
        assert states.tolist() == [[[[4.0, 0.0]]]]


def test_states_before_a_position_do_not_see_it(recurrence: Make) -> None:
    case = recurrence("blocks", 9)
    a, b, x = (leaf.detach().clone() for leaf in case.leaves)
    before = {name: scan(BlockDiagonal(a), b, x, name) for name in ALGORITHMS}
    a[:, 5] += 1
    b[:, 5] += 1
    for name, states in before.items():
        after = scan(BlockDiagonal(a), b, x, name)
        close(after[:, :5], states[:, :5])
        assert not torch.allclose(after[:, 5], states[:, 5])


def test_inputs_are_left_as_they_were(recurrence: Make) -> None:
    for kind in KINDS:
        case = recurrence(kind, 6)
        copies = [leaf.detach().clone() for leaf in case.leaves]
        for algorithm in ALGORITHMS:
            case.gradients(algorithm)
        assert all(torch.equal(leaf, copy) for leaf, copy in zip(case.leaves, copies, strict=True))


def test_only_the_gradients_asked_for_are_needed(recurrence: Make) -> None:
    for kind in KINDS:
        for algorithm in FAST:
            case = recurrence(kind, 4)
            for kept in range(3):
                leaves = [leaf.detach() for leaf in case.leaves]
                leaves[kept].requires_grad_()
                states = case.states(algorithm, *leaves)
                (found,) = torch.autograd.grad(states.sum().real, leaves[kept])
                wanted = torch.autograd.grad(case.states("reference").sum().real, case.leaves)
                close(found, wanted[kept])


def test_unknown_algorithm_names_the_known_ones() -> None:
    one = torch.ones(1, 1, 1)
    with pytest.raises(UserError, match="sequential"):
        scan(Diagonal(one), one, one[0], "sequental")
