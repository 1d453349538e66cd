"""The modulated scan: compiled loops and written-out transitions give the recurrence itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.kernels.choice import SWITCH, installed
from lrbench.kernels.lanes import side_by_side
from lrbench.scan.diagonal.modulated import modulated_scan

BATCH, LENGTH, MODES = 2, 5, 3


def arguments(width: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return leaves a, b, c, skip, u, v, x_0."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, imaginary: bool = False) -> Tensor:
        kind = dtype.to_complex() if imaginary else dtype
        return torch.randn(shape, generator=generator, dtype=kind).mul_(0.7).requires_grad_()

    systems = [draw(width, MODES, imaginary=True) for _ in range(3)]
    inputs = [draw(width), *(draw(BATCH, LENGTH, width) for _ in range(2))]
    return [*systems, *inputs, draw(BATCH, width, MODES, imaginary=True)]


def as_written(
    a: Tensor, b: Tensor, c: Tensor, skip: Tensor, u: Tensor, v: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    outputs = []
    for k in range(LENGTH):
        x = (a + b * v[:, k, :, None]) * x + b * u[:, k, :, None]
        outputs.append(2 * (c * x).sum(-1).real + skip * u[:, k])
    return torch.stack(outputs, 1), x


def gradients(result: tuple[Tensor, Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    y, last = result
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    weight = torch.linspace(-1, 2, last.numel(), dtype=y.dtype).view(last.shape)
    loss = (y * weights).sum() + (last * (1 - 0.5j) * weight).real.sum()
    return torch.autograd.grad(loss, leaves)


# 16, 8 and 4 channels side by side; 6 channels are left to torch
@pytest.mark.slow
@pytest.mark.parametrize("width", [32, 8, 4, 6])
@pytest.mark.parametrize("switch", ["0", "1"])
def test_values_and_gradients(width: int, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if switch == "1" and not installed():
        pytest.skip("numba is not installed")
    monkeypatch.setenv(SWITCH, switch)
    leaves = arguments(width)
    found, expected = modulated_scan(*leaves), as_written(*leaves)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, leaves), gradients(expected, leaves))


def test_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    leaves = arguments(16, torch.float32)
    found, expected = modulated_scan(*leaves), as_written(*leaves)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(found, leaves), gradients(expected, leaves)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def test_lanes_divide_the_channels() -> None:
    assert [side_by_side(d) for d in (64, 48, 24, 20, 6, 7)] == [16, 16, 8, 4, 2, 1]
