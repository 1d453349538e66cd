"""While a certificate is made, nothing rounds products to TF32 or bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from lrbench.runs.evaluate.certify import full_float32


@pytest.fixture
def as_before() -> Iterator[None]:
    """Put torch's settings back, whatever a test does to them."""
    cudnn = torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32 = cudnn
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.usefixtures("as_before")
def test_products_are_in_full_float32(before: str) -> None:
    torch.set_float32_matmul_precision(before)
    torch.backends.cudnn.allow_tf32 = True
    matmul = torch.backends.cuda.matmul.allow_tf32
    with full_float32():
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == before
    assert torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == matmul
