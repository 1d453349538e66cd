"""Products of matrices are right whoever multiplies, and who does depends on nothing but sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lrbench import machine
from lrbench.kernels import choice, products
from lrbench.kernels.choice import SWITCH, Means, available, installed
from lrbench.kernels.products import add_product, product

HAS_ONEDNN = torch.backends.mkldnn.is_available()


@pytest.fixture(params=["torch", "onednn"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who multiplies large matrices in a test."""
    if request.param == "onednn" and not HAS_ONEDNN:
        pytest.skip("this torch is built without oneDNN")
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(choice, "installed", lambda by: request.param == "onednn")
    return str(request.param)


@pytest.fixture
def undecided() -> Iterator[None]:
    """Let the processor be asked again, and afterwards once more."""
    installed.cache_clear()
    yield
    installed.cache_clear()


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype)


def close(result: Tensor, a: Tensor, b: Tensor, more: Tensor | float = 0.0) -> None:
    exact = a.double() @ b.double() + more
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-5 * a.shape[1] ** 0.5)


LAYOUTS = {  # of (M, K) numbers, as the loops have them in memory
    "rows": lambda m, k: random(m, k),
    "columns": lambda m, k: random(k, m).T,
    "part of a row": lambda m, k: random(m, k + 3)[:, 1:-2],
    "every other row": lambda m, k: random(2 * m, k)[::2],
    "one of several": lambda m, k: random(3, m, k)[1],
}


PAIRS = sorted({pair for one in LAYOUTS for pair in ((one, one), (one, "rows"), ("rows", one))})


SIZES = [(448, 513, 128), (5, 64, 4992), (1, 513, 4096), (64, 4992, 65)]
CASES = [(*pair, SIZES[at]) for place, pair in enumerate(PAIRS) for at in {0, 1 + place % 3}]


@pytest.mark.parametrize(("left", "right", "sizes"), CASES)
def test_the_product(by: str, left: str, right: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = LAYOUTS[left](m, k), LAYOUTS[right](k, n)
    assert m * k * n >= products.LARGE
    close(product(a, b), a, b)
    out = torch.full((m, n + 1), 7.0)
    assert product(a, b, out[:, :-1]).data_ptr() == out.data_ptr()
    close(out[:, :-1], a, b)
    assert (out[:, -1] == 7).all()
    total = random(m, n)
    before = total.double()
    assert add_product(total, a, b) is total
    close(total, a, b, before)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (0, 4, 3), (64, 64, 64)])
def test_small_ones(by: str, shape: tuple[int, int, int]) -> None:
    a, b = random(*shape[:2]), random(*shape[1:])
    close(product(a, b), a, b)
    close(add_product(torch.ones(len(a), b.shape[1]), a, b), a, b, 1.0)


def test_other_numbers_keep_their_precision(by: str) -> None:
    a, b = random(512, 512, dtype=torch.float64), random(512, 512, dtype=torch.float64)
    assert torch.equal(product(a, b), a @ b)


def test_the_same_bits_each_time(by: str) -> None:
    a, b = random(448, 513), random(513, 128)
    first = product(a, b)
    assert all(torch.equal(product(a.clone(), b.clone()), first) for _ in range(5))


def test_large_ones_are_multiplied_by_the_one_that_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(products, "_by_onednn", lambda a, b: seen.append(len(a)) or a @ b)
    for faster in (False, True):
        monkeypatch.setattr(choice, "installed", lambda by, faster=faster: faster)
        for rows in (63, 64):  # 64 x 128 x 128 = LARGE
            product(random(rows, 128), random(128, 128))
            add_product(random(rows, 128), random(rows, 128), random(128, 128))
        product(random(3, 1024), random(1024, 1024))  # few rows, few columns
        product(random(1024, 1024), random(1024, 3))
    assert seen == [64, 64]


@pytest.mark.parametrize("bias", [(128,), (448, 1)])
@pytest.mark.parametrize("there", [False, True])
def test_a_bias_along_rows_or_columns(by: str, bias: tuple[int, ...], there: bool) -> None:
    a, b, c = random(448, 513), random(513, 128), random(*bias)
    out = torch.empty(448, 128) if there else None
    result = product(a, b, out, c)
    close(result, a, b, c.double())
    assert out is None or result.data_ptr() == out.data_ptr()


def test_a_gradient_that_is_asked_for_is_torchs(by: str) -> None:
    a, b = random(448, 513).requires_grad_(), random(513, 128)
    product(a, b).sum().backward()
    assert a.grad is not None
    close(a.grad, torch.ones(448, 128), b.T)
    with pytest.raises(RuntimeError, match=r"out=|requires grad"):
        product(a, b, torch.empty(448, 128))


def test_no_product_is_stretched(by: str) -> None:
    wrong = torch.zeros(449, 128)
    with pytest.raises((RuntimeError, ValueError)):
        add_product(wrong, random(448, 513), random(513, 128))
    if by == "onednn":  # torch makes room, and warns
        with pytest.raises(ValueError, match=r"\(448, 128\) for \(449, 128\)"):
            product(random(448, 513), random(513, 128), wrong)


@pytest.mark.skipif(not HAS_ONEDNN, reason="this torch is built without oneDNN")
@pytest.mark.parametrize(
    ("reported", "faster"),
    [
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: avx512f\n", True),
        ("processor\t: 0\nvendor_id\t: GenuineIntel\n", False),
        ("processor\t: 0\n", False),
        (None, False),
    ],
)
def test_which_processors(
    reported: str | None,
    faster: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undecided: None,
) -> None:
    if reported is not None:
        (tmp_path / "cpuinfo").write_text(reported)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert available(Means.ONEDNN) == faster
    monkeypatch.setenv(SWITCH, "0")
    assert not available(Means.ONEDNN)
    monkeypatch.setenv(SWITCH, "1")
    installed.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not available(Means.ONEDNN)
