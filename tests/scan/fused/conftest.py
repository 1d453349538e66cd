"""Triton's interpreter for the tests of a folder, and recurrences for its kernels."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
import torch

from lrbench.kernels.choice import INTERPRETER, Means, installed, interpreted

KERNELS = ("block_kernels", "diagonal_kernels")


def import_interpreted() -> None:
    """Import triton and the kernels so that they are interpreted, and leave no trace.

    Triton decides when a kernel, its own ones included, is defined: whoever imports it first.
    Conftests are imported before any test runs, so that is here, unless kernels can run on a GPU.
    """
    before = os.environ.get(INTERPRETER)
    os.environ[INTERPRETER] = "1"
    try:
        for name in KERNELS:
            import_module(f"lrbench.scan.fused.{name}")
    finally:
        del os.environ[INTERPRETER]
        if before is not None:
            os.environ[INTERPRETER] = before


if installed(Means.TRITON) and not torch.cuda.is_available():
    import_interpreted()


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels run on the CPU, in triton's interpreter."""
    pytest.importorskip("triton", reason="triton comes with CUDA builds of torch")
    if torch.cuda.is_available() and not interpreted():
        pytest.skip("the kernels themselves run here: test_cuda.py")
    monkeypatch.setenv(INTERPRETER, "1")
