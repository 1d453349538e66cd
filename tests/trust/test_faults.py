"""Kernels with faults: each is found out in a child process, and the plain path runs, once told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lrbench.kernels import normalisation as norm
from lrbench.kernels.choice import installed
from lrbench.kernels.normalisation import LayerNorm
from lrbench.trust import checker, decision

from . import faulty

TOLD = {
    faulty.WRONG: "value 0: off by",
    faulty.SLOPE: "gradient 0: off by",
    faulty.RAISES: "RuntimeError: no such instruction",
    faulty.NAN: "value 0: not a finite number",
    faulty.CRASHES: "its process ended: SIGSEGV",
    faulty.HANGS: "it took more than 2 s",
}

pytestmark = pytest.mark.skipif(not installed(), reason="needs numba: the extra `fast`")


@pytest.fixture
def faults(checks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the faults into this process and into its children."""
    place = tmp_path / "site"
    place.mkdir()
    shutil.copy(str(faulty.__file__), place / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", f"{place}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.setattr(norm, "forward_loop", norm.forward_loop)  # put back afterwards
    monkeypatch.setattr(norm, "backward_loop", norm.backward_loop)
    faulty.install()
    return checks


def normed(width: int) -> list[Tensor]:
    """Return layer normalisation and its gradients."""
    layer = LayerNorm(width)
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, width, generator=drawn).requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]


@pytest.mark.slow
def test_every_fault_leaves_the_plain_path(
    faults: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", "0")
    plain = {width: normed(width) for width in faulty.FAULTS}
    monkeypatch.setenv("LRBENCH_COMPILED", "1")
    for width, expected in plain.items():
        monkeypatch.setattr(checker, "LIMIT", 2 if width == faulty.HANGS else 300)
        for _ in range(2):  # as a run does, again and again
            assert all(map(torch.equal, normed(width), expected))
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert told[0].startswith(f"not used: layer_norm[{width}] in float32 on cpu: {TOLD[width]}")
    monkeypatch.setattr(decision._process, "outcomes", {})  # another process knows it from the disk
    monkeypatch.setattr(checker, "check", None)
    for width, expected in plain.items():
        assert all(map(torch.equal, normed(width), expected))
    assert len(capsys.readouterr().err.splitlines()) == len(plain)


@pytest.mark.slow
def test_a_kernel_without_fault_is_used(faults: Path) -> None:
    """112 features have none of the faults; the next process need not check."""
    normed(112)
    (found,) = decision.told()
    assert found.trusted and found.kernel.layout == (112,)
    assert len(list(faults.rglob("layer_norm-float32-112-cpu.json"))) == 1


def test_switched_off_nothing_is_checked(faults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(decision.SWITCH, "0")
    with pytest.raises(RuntimeError, match="no such instruction"):
        normed(faulty.RAISES)
    assert not faults.exists()
