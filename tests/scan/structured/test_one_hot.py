"""One-hot columns and rows: algorithms over indices agree with dense matrices, gradients too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.kernels.choice import SWITCH, installed
from lrbench.scan import ALGORITHMS, Indexed, scan
from lrbench.scan.structured import one_hot
from lrbench.scan.structured.one_hot import ACTIONS, ORIENTATIONS, OneHotProducts, packed
from lrbench.scan.structured.one_hot_loops import one_hot_states

B, N, K, S = 3, 5, 4, 6
LENGTHS = (1, 2, 40, 65, 129)


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def problem(length: int) -> list[Tensor]:
    """Return weights, dictionary, values, inputs and initial state, whose gradients are asked."""
    angles = torch.polar(draw(B, length, N, seed=3).sigmoid(), draw(B, length, N, seed=4))
    inputs = torch.complex(draw(B, length, 1, N, seed=5), draw(B, length, 1, N, seed=6))
    initial = torch.complex(draw(B, 1, N, seed=7), draw(B, 1, N, seed=8))
    weights = (2 * draw(B, length, K, seed=1)).softmax(-1)
    leaves = weights, draw(K, N, N, seed=2), angles, inputs, initial
    return [leaf.requires_grad_() for leaf in leaves]


def states_and_slopes(
    leaves: list[Tensor], orientation: str, algorithm: str, index: Tensor | None = None
) -> list[Tensor]:
    made = OneHotProducts(*leaves[:3], orientation)
    transition = made if index is None else Indexed(made, index)
    states = scan(transition, *leaves[3:], algorithm)
    numbers = torch.view_as_real(states)
    loss = (numbers * torch.linspace(-1, 1, numbers.numel()).view_as(numbers)).sum()
    return [states, *torch.autograd.grad(loss, leaves)]


def compare(found: list[Tensor], expected: list[Tensor], where: str) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=where)


@pytest.fixture(params=["compiled", "torch"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop over positions in both its ways, beside the other algorithms."""
    monkeypatch.setenv(SWITCH, "1" if request.param == "compiled" else "0")


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_every_algorithm_agrees_with_dense_matrices(orientation: str) -> None:
    for length in LENGTHS:
        leaves = problem(length)
        expected = states_and_slopes(leaves, orientation, "reference")
        assert all(float(slope.detach().abs().max()) > 0 for slope in expected)
        for algorithm in ALGORITHMS:
            found = states_and_slopes(leaves, orientation, algorithm)
            compare(found, expected, f"{algorithm}, T={length}")


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_a_table_of_symbols_is_what_it_says_at_each_position(orientation: str) -> None:
    """With more symbols than a string has letters, and symbols that are not there."""
    table = [leaf[:1].detach().requires_grad_() for leaf in problem(S)]
    table[1], table[4] = problem(S)[1], problem(S)[4]
    for length in (1, 40):
        index = torch.randint(S - 1, (B, length), generator=torch.Generator().manual_seed(9))
        expected = states_and_slopes(table, orientation, "reference", index)
        for algorithm in ALGORITHMS:
            found = states_and_slopes(table, orientation, algorithm, index)
            compare(found, expected, f"{algorithm}, T={length}")


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_the_form_is_closed(orientation: str) -> None:
    """Joining, transposing and acting on packed transitions is what their matrices do."""
    blocks, packs = [], []
    for seed in (1, 2):
        index = torch.randint(N, (1, N), generator=torch.Generator().manual_seed(seed))
        d = torch.complex(draw(1, N, seed=seed), draw(1, N, seed=seed + 2))
        ones = torch.nn.functional.one_hot(index[0], N).to(d.dtype)
        matrix = ones.T * d if orientation == "column" else ones * d.T
        blocks.append(matrix)
        packs.append(packed(index, d))
    action, eye = ACTIONS[orientation], torch.eye(N, dtype=torch.complex128)

    def dense(form: object, a: Tensor) -> Tensor:
        columns = torch.zeros_like(eye)
        form.add(columns, a.expand(N, 2, N), eye)  # type: ignore[attr-defined]
        return columns.T

    torch.testing.assert_close(dense(action, packs[0]), blocks[0])
    torch.testing.assert_close(
        dense(action, action.join(packs[1], packs[0])), blocks[1] @ blocks[0]
    )
    torch.testing.assert_close(dense(action.of_adjoints, action.adjoint(packs[0])), blocks[0].mH)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_matrices_have_one_number_in_each_column_or_row(orientation: str) -> None:
    weights, dictionary, values, *_ = (leaf.detach() for leaf in problem(7))
    made = OneHotProducts(weights, dictionary, values, orientation)
    blocks = made.written().blocks[:, :, 0]
    axis = -2 if orientation == "column" else -1
    scores = torch.einsum("btk,kij->btij", weights, dictionary)
    assert torch.equal(blocks.abs().argmax(axis), scores.argmax(axis))
    assert bool(((blocks != 0).sum(axis) == 1).all())
    torch.testing.assert_close(blocks.sum(axis), values)
    state = torch.complex(draw(B, 1, N, seed=7), draw(B, 1, N, seed=8))
    product = torch.einsum("bij,bhj->bhi", blocks[:, 3], state)
    torch.testing.assert_close(made.act(3, state), product)


@pytest.mark.skipif(not installed(), reason="needs numba: the extra `fast`")
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_compiled_loops_are_used_and_agree_in_single_precision(
    orientation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = [leaf.detach() for leaf in problem(17)]
    leaves = [x.to(torch.complex64 if x.is_complex() else torch.float32) for x in leaves]
    leaves = [x.requires_grad_() for x in leaves]
    monkeypatch.setenv(SWITCH, "0")
    expected = states_and_slopes(leaves, orientation, "sequential")
    monkeypatch.setenv(SWITCH, "1")
    calls = []
    monkeypatch.setattr(one_hot, "one_hot_states", lambda *x: calls.append(1) or one_hot_states(*x))
    found = states_and_slopes(leaves, orientation, "sequential")
    assert calls
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_a_symbol_that_is_not_there_and_a_score_that_is_no_number(orientation: str) -> None:
    table = [leaf[:1].detach() for leaf in problem(S)]
    table[1], table[4] = (problem(S)[k].detach() for k in (1, 4))
    made = OneHotProducts(*table[:3], orientation)
    for wrong in (S, -1 - S):
        with pytest.raises(IndexError):
            scan(Indexed(made, torch.full((B, 2), wrong)), *table[3:], "sequential")
    table[1][0, 0, 0] = torch.nan
    states = scan(Indexed(made, torch.zeros(B, 2, dtype=torch.int64)), *table[3:], "sequential")
    assert bool(states.isnan().any())


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_gradients_without_counting_are_the_same(
    orientation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where every position is read for every symbol; some do not occur."""
    monkeypatch.setenv(SWITCH, "0")
    table = [leaf[:1].detach().requires_grad_() for leaf in problem(S)]
    table[1], table[4] = problem(S)[1], problem(S)[4]
    index = torch.randint(S - 1, (B, 9), generator=torch.Generator().manual_seed(9))
    counted = [states_and_slopes(table, orientation, "sequential", index)]
    table[2].data[0, 3, 0] = float("nan")  # of one symbol: others keep their gradients
    counted.append(states_and_slopes(table, orientation, "sequential", index))
    monkeypatch.setattr(one_hot, "waits", lambda symbols: True)
    masked = [states_and_slopes(table, orientation, "sequential", index)]
    table[2].data[0, 3, 0] = problem(S)[2].detach()[0, 3, 0]
    masked.insert(0, states_and_slopes(table, orientation, "sequential", index))
    compare(masked[0], counted[0], orientation)
    for ours, theirs in zip(masked[1], counted[1], strict=True):
        assert torch.equal(ours.isnan(), theirs.isnan())
    assert not masked[1][1].isnan().all()  # of the weights, a row a symbol
