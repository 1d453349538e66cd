"""The selective scan: loops, compiled or not, and written-out transitions are the recurrence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.kernels.choice import SWITCH, installed
from lrbench.scan.diagonal.selective import MODES, selective_scan

BATCH, NUMBERS = 2, 3


def arguments(width: int, length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return leaves: rates, skip, steps, x, b, c, the state before."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    rates, steps = -draw(NUMBERS, width).exp(), draw(BATCH, length, width).exp()
    leaves = [rates, draw(width), steps, draw(BATCH, length, width)]
    leaves += [draw(BATCH, length, NUMBERS), draw(BATCH, length, NUMBERS)]
    leaves.append(draw(BATCH, NUMBERS, width))
    return [leaf.requires_grad_() for leaf in leaves]


def as_written(leaves: list[Tensor], reach: float) -> tuple[Tensor, Tensor]:
    rates, skip, steps, x, b, c, h = leaves
    outputs = []
    for t in range(x.shape[1]):
        decay = (steps[:, t, None] * rates).exp()
        decay = decay if reach == 1 else 2 * decay - 1
        h = decay * h + b[:, t, :, None] * steps[:, t, None] * x[:, t, None]
        outputs.append((c[:, t, :, None] * h).sum(1) + skip * x[:, t])
    return torch.stack(outputs, 1), h


def gradients(result: tuple[Tensor, Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    y, last = result
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    weight = torch.linspace(-1, 2, last.numel(), dtype=y.dtype).view(last.shape)
    return torch.autograd.grad((y * weights).sum() + (last * weight).sum(), leaves)


# 16 and 4 channels side by side; 6 channels are left to torch
@pytest.mark.slow
@pytest.mark.parametrize("reach", [1.0, 2.0])
@pytest.mark.parametrize(("width", "length"), [(32, 1), (4, 500), (4, 7), (6, 7)])
@pytest.mark.parametrize("how", ["loop", "compiled", "scan"])
def test_values_and_gradients(
    how: str, width: int, length: int, reach: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "compiled" and not installed():
        pytest.skip("numba is not installed")
    monkeypatch.setenv(SWITCH, "1" if how == "compiled" else "0")
    leaves = arguments(width, length)
    mode = "scan" if how == "scan" else "sequential"
    found, expected = selective_scan(*leaves, reach, mode), as_written(leaves, reach)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    ours, theirs = gradients(found, leaves), gradients(expected, leaves)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reach", [1.0, 2.0])
def test_single_precision(reach: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    leaves = arguments(16, 40, torch.float32)
    found, expected = selective_scan(*leaves, reach), as_written(leaves, reach)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(found, leaves), gradients(expected, leaves)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("switch", ["0", "1"])
def test_steps_of_nothing_and_without_end_are_one_and_minus_one(
    switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit: what turns the state and what leaves it adds no error over any length."""
    monkeypatch.setenv(SWITCH, switch)
    h = torch.linspace(-1, 1, 16).view(1, 1, 16)
    x, ones = torch.zeros(1, 1, 16), torch.ones(1, 1, 1)
    for size, factor in ((0.0, 1.0), (1e-30, 1.0), (200.0, -1.0), (1e30, -1.0)):
        steps = torch.full((1, 1, 16), size)
        for mode in MODES:
            rates, skip = torch.full((1, 16), -1.0), torch.zeros(16)
            y, last = selective_scan(rates, skip, steps, x, ones, ones, h, 2.0, mode)
            assert torch.equal(last, factor * h)
            assert torch.equal(y, factor * h)


def test_another_mode_is_refused() -> None:
    with pytest.raises(UserError, match="mode"):
        selective_scan(*arguments(4, 2), 1.0, "parallel")
