"""Tables of powers, and their gradient."""

from __future__ import annotations

import pytest
import torch
from torch.func import vmap

from lrbench.scan.time_invariant.powers import powers


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_entries_and_gradient(dtype: torch.dtype, count: int) -> None:
    base = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    table = powers(base, count)
    for n in range(count):
        torch.testing.assert_close(table[:, n], base**n)
    assert torch.autograd.gradcheck(lambda a: powers(a, count), base.requires_grad_())


def test_groups() -> None:
    base = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = vmap(lambda a: powers(a, 5))(base)
    torch.testing.assert_close(together, torch.stack([powers(a, 5) for a in base]))
