"""The comparison of two devices: run on the CPU alone here, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

from lrbench.contract.mixers.devices import compare_devices
from lrbench.contract.subject import Context, MixerFactory
from lrbench.mixers.base import Mixer

from .. import broken
from ..conftest import Examine


def factory(cls: type) -> MixerFactory:
    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> Mixer:
        torch.manual_seed(seed)
        return cls(broken.LeakyConfig(), 4).to(dtype).eval()

    return make


@pytest.mark.parametrize("cls", [broken.Leaky, broken.DiagonalLeaky, broken.InPairs])
def test_a_device_equals_itself(cls: type) -> None:
    comparison = compare_devices(factory(cls), Context(width=4), torch.device("cpu"))
    assert comparison.worst == 0.0


def test_a_copy_that_computes_something_else_is_found() -> None:
    """Stand in for a device that rounds: a mixer whose moved copy is not the same."""

    class Drifts(broken.Leaky):
        def __deepcopy__(self, memo: object) -> broken.Leaky:
            return factory(broken.Leaky)(seed=1)

    comparison = compare_devices(factory(Drifts), Context(width=4), torch.device("cpu"))
    assert comparison.worst > 1e-2


def test_no_device_is_said(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    finding = examine(broken.Leaky)["cuda"]
    assert (finding.passed, finding.detail) == (None, "no CUDA device here")


@pytest.mark.cuda
@pytest.mark.parametrize("cls", [broken.Leaky, broken.DiagonalLeaky])
def test_cuda_is_compared(examine: Examine, cls: type) -> None:
    finding = examine(cls)["cuda"]
    assert finding.passed is True, finding.detail


@pytest.mark.cuda
def test_a_tensor_left_on_the_cpu_is_found(examine: Examine) -> None:
    finding = examine(broken.StateOnCpu)["cuda"]
    assert finding.passed is False and "raised RuntimeError" in finding.detail
