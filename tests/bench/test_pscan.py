"""The parallel scan forms the products of the paper's Appendix A.2.1, in its order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.bench import pscan as module
from lrbench.bench.pscan import _join_pairs, added, pscan
from lrbench.scan import ALGORITHMS, BlockDiagonal, GeneratedBlocks, scan
from tests.scan.conftest import KINDS, make_recurrence


def seven_blocks() -> Tensor:
    """Return A_1..A_7 as (1, 7, 1, 2, 2) blocks that do not commute."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, 7, 1, 2, 2, generator=generator, dtype=torch.float64)


def test_products_of_the_last_stage() -> None:
    """For L = 8 the second half adds A4, A5A4, A6A5A4, A7A6A5A4 times the state before it."""
    blocks = seven_blocks()
    _, _, _, a4, a5, a6, a7 = blocks[0, :, 0]
    products = blocks[:, :, None]
    for groups, size in ((3, 2), (1, 4)):
        products = _join_pairs(products)
        assert products.shape == (1, groups, size, 1, 2, 2)
    expected = torch.stack([a4, a5 @ a4, a6 @ a5 @ a4, a7 @ a6 @ a5 @ a4])
    torch.testing.assert_close(products[0, 0, :, 0], expected)


def test_products_of_the_middle_stage() -> None:
    """Groups of four: the first uses (A2, A3A2), the second (A6, A7A6), and (A4, A5A4) is kept."""
    blocks = seven_blocks()
    _, a2, a3, a4, a5, a6, a7 = blocks[0, :, 0]
    pairs = _join_pairs(blocks[:, :, None])[0, :, :, 0]
    expected = [[a2, a3 @ a2], [a4, a5 @ a4], [a6, a7 @ a6]]
    torch.testing.assert_close(pairs, torch.stack([torch.stack(pair) for pair in expected]))


def test_without_inputs_states_are_products_on_the_first_state() -> None:
    blocks = seven_blocks()
    x0 = torch.tensor([[[1.0, -2.0]]], dtype=torch.float64)
    states = pscan(BlockDiagonal(blocks), torch.zeros(1, 7, 1, 2).double(), x0)
    product = torch.eye(2, dtype=torch.float64)
    for k in range(7):
        product = blocks[0, k, 0] @ product
        torch.testing.assert_close(states[0, k, 0], product @ x0[0, 0])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9])
def test_depth_is_logarithmic(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = []
    original = module._join_halves

    def counted(x: Tensor, coefficients: Tensor, half: int) -> Tensor:
        stages.append(half)
        return original(x, coefficients, half)

    monkeypatch.setattr(module, "_join_halves", counted)
    transition = BlockDiagonal(torch.zeros(1, length, 1, 2, 2))
    pscan(transition, torch.zeros(1, length, 1, 2), torch.zeros(1, 1, 2))
    assert stages == [2**s for s in range(len(stages))]
    assert 2 ** len(stages) >= length + 1 > 2 ** (len(stages) - 1)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_the_reference_and_so_do_gradients(kind: str, length: int) -> None:
    case = make_recurrence(kind, length)
    with added():
        for found, expected in (
            (case.states("pscan"), case.states("reference")),
            (case.gradients("pscan"), case.gradients("reference")),
        ):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("constraint", ["none", "max_column_centred"])
def test_blocks_that_are_generated(constraint: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, z, b, x = (
        torch.randn(shape, generator=generator, dtype=torch.float64) / 2
        for shape in ((2, 3, 3, 4), (2, 9, 4), (2, 9, 2, 3), (2, 2, 3))
    )
    blocks = GeneratedBlocks(weight, z, constraint, 1.2)
    torch.testing.assert_close(pscan(blocks, b, x), scan(blocks, b, x, "reference"))


def test_models_have_it_only_where_it_is_added() -> None:
    with added():
        assert "pscan" in ALGORITHMS
    assert "pscan" not in ALGORITHMS
