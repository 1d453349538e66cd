"""Fused kernels on a GPU: they compute what the reference computes there, and are chosen."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from lrbench.kernels.choice import interpreted
from lrbench.scan import BlockDiagonal, scan
from lrbench.scan.algorithms.fused import fits

from .cases import TOLERANCES, case, close

ACCESSES = ("step", "table", "constant")
LENGTHS = (1, 2, 33, 130)

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.skipif(interpreted(), reason="TRITON_INTERPRET=1 keeps kernels off the GPU"),
]


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks(dtype: torch.dtype, size: int, access: str) -> None:
    for length in LENGTHS:
        one = case(access, "blocks", (8, size), length=length, batch=37, dtype=dtype, device="cuda")
        a, b, x = one.leaves
        assert fits(one.wrap(a), b, x)
        close(one.results("fused"), one.results("reference"))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("width", [5, 64, 300])
@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_diagonals(dtype: torch.dtype, width: int, access: str) -> None:
    for length in LENGTHS:
        one = case(
            access, "diagonal", (width,), length=length, batch=37, dtype=dtype, device="cuda"
        )
        close(one.results("fused"), one.results("reference"))


@pytest.mark.parametrize("symbols", [1, 8, 20, 32, 40])
@pytest.mark.parametrize(
    ("form", "shape"), [("blocks", (8, 2)), ("blocks", (2, 16)), ("diagonal", (40,))]
)
def test_tables(form: str, shape: tuple[int, ...], symbols: int) -> None:
    one = case("table", form, shape, length=65, batch=130, symbols=symbols, device="cuda")
    close(one.results("fused"), one.results("reference"))


def test_many_programs() -> None:
    one = case("step", "blocks", (8, 8), length=40, batch=1024, dtype=torch.float32, device="cuda")
    close(one.results("fused"), one.results("reference"))


def test_a_run_repeats_itself() -> None:
    one = case("table", "blocks", (8, 8), length=40, batch=256, dtype=torch.float32, device="cuda")
    first, second = one.results("fused"), one.results("fused")
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_it_is_what_auto_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    module, made = import_module("lrbench.scan.algorithms.automatic"), []
    monkeypatch.setattr(module, "fused", lambda *given: made.append(given))
    blocks = torch.zeros(2, 3, 4, 8, 8, device="cuda")
    scan(BlockDiagonal(blocks), blocks[..., 0], blocks[:, 0, ..., 0], "auto")
    assert len(made) == 1


def test_kernels_are_captured() -> None:
    one = case("step", "blocks", (8, 8), length=40, dtype=torch.float32, device="cuda")
    a, b, x = (leaf.detach() for leaf in one.leaves)
    expected = one.states("fused", a, b, x)  # compiled outside of the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        states = one.states("fused", a, b, x)
    states.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(states, expected)
