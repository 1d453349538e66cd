"""What fused kernels cover, and that the rest goes to the loop over time."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from lrbench.kernels import choice
from lrbench.kernels.choice import SWITCH
from lrbench.scan import BlockDiagonal, Diagonal, GeneratedBlocks, Transition, scan
from lrbench.scan.algorithms.fused import fits
from lrbench.scan.fused.blocks import SIZES
from lrbench.scan.fused.tiles import THREADS, block_grid

from .cases import case, close


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that kernels run here; `fits` asks for nothing else of the machine."""
    algorithm = import_module("lrbench.scan.algorithms.fused")
    monkeypatch.setattr(algorithm, "usable", lambda *_, by: True)


def covered(transition: Transition, dtype: torch.dtype, *shape: int) -> bool:
    return fits(
        transition, torch.zeros(2, 3, *shape, dtype=dtype), torch.zeros(2, *shape).to(dtype)
    )


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize(
    ("dtype", "size", "expected"),
    [
        (torch.float32, 8, True),
        (torch.float64, 1, True),
        (torch.float32, 3, False),
        (torch.float32, 32, False),
        (torch.bfloat16, 8, False),
        (torch.complex64, 8, False),
    ],
)
def test_blocks_that_fit(dtype: torch.dtype, size: int, expected: bool) -> None:
    blocks = BlockDiagonal(torch.zeros(2, 3, 2, size, size, dtype=dtype))
    assert covered(blocks, dtype, 2, size) == expected


@pytest.mark.usefixtures("at_hand")
def test_diagonals_that_fit() -> None:
    for dtype, expected in ((torch.complex64, True), (torch.float32, True), (torch.half, False)):
        assert covered(Diagonal(torch.zeros(2, 3, 4, dtype=dtype)), dtype, 4) == expected
    assert not covered(Diagonal(torch.zeros(2, 3, 1)), torch.float32, 4)  # broadcast
    assert not covered(Diagonal(torch.zeros(2, 3, 4)), torch.float64, 4)  # mixed
    assert not covered(Diagonal(torch.zeros(2, 3, 4, 5)), torch.float32, 4, 5)


def test_nothing_fits_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(choice.INTERPRETER, raising=False)
    assert not covered(Diagonal(torch.zeros(2, 3, 4)), torch.float32, 4)


def test_nothing_fits_without_triton_or_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    diagonal = Diagonal(torch.zeros(2, 3, 4))
    monkeypatch.setenv(choice.INTERPRETER, "1")
    for there, switch, expected in ((True, "1", True), (False, "1", False), (True, "0", False)):
        monkeypatch.setattr(choice, "installed", lambda by, there=there: there)
        monkeypatch.setenv(SWITCH, switch)
        assert covered(diagonal, torch.float32, 4) == expected


@pytest.mark.usefixtures("interpreter")
def test_what_does_not_fit_is_looped_over() -> None:
    one = case("step", "blocks", (2, 3), length=4)
    close(one.results("fused"), one.results("reference"))


def test_a_program_takes_as_many_chains_as_have_eight_numbers_a_thread() -> None:
    for size in (1, *SIZES):
        grid, chains = block_grid(1, 2**20, 64, size)
        assert chains == max(8 * THREADS // size**2, 1)
        assert grid == (2**26 // chains, 1)


@pytest.mark.usefixtures("interpreter")
def test_blocks_to_be_made_are_made() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, features, inputs, x = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((2, 4, 4, 3), (2, 5, 3), (2, 5, 2, 4), (2, 2, 4))
    )
    results = []
    for algorithm in ("fused", "reference"):
        blocks = GeneratedBlocks(weight, features, "column_clip", 1.2)
        states = scan(blocks, inputs, x, algorithm)
        leaves = (weight, features, inputs, x)
        results.append((states, *torch.autograd.grad(states.square().sum(), leaves)))
    close(*results)
