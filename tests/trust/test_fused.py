"""Triton's kernels, interpreted: they agree with the loop, and one with a fault is not used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from lrbench.kernels.choice import Means, covers
from lrbench.scan import Diagonal, scan
from lrbench.scan.algorithms.fused import fits
from lrbench.trust import checker, child, decision
from lrbench.trust.outcomes import Kernel, TrustOutcome
from tests.scan.fused.conftest import interpreter  # noqa: F401

LAYOUTS = {
    "fused_diagonal": [("step", 5), ("table", 5), ("constant", 5)],
    "fused_blocks": [("step", 2, 4), ("table", 2, 4), ("constant", 2, 4)],
}

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.mark.parametrize("name", LAYOUTS)
def test_kernels_agree(name: str) -> None:
    dtypes = ["float32", "complex64"] if name == "fused_diagonal" else ["float32"]
    for dtype in dtypes:
        for layout in LAYOUTS[name]:
            assert child.fault(Kernel(name, dtype, layout)) == ""


@pytest.mark.parametrize("half", ["forward", "backward"])
@pytest.mark.usefixtures("checks")
def test_a_fault_leaves_the_loop(
    half: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The child's part is done here: whether a kernel is interpreted depends on who imports it."""
    kernels = import_module("lrbench.scan.fused.diagonal_kernels")
    before = getattr(kernels, half)

    class Faulty:
        def __getitem__(self, grid: Any) -> Any:
            def run(*arguments: Any, **constants: Any) -> None:
                before[grid](*arguments, **constants)
                arguments[4].mul_(1.01)  # the states, and the gradient of the transitions

            return run

    monkeypatch.setattr(kernels, half, Faulty())
    monkeypatch.setattr(
        checker, "check", lambda kernel: TrustOutcome(kernel, child.fault(kernel), 0.0)
    )
    drawn = torch.Generator().manual_seed(0)
    a, b, x = (torch.randn(shape, generator=drawn) for shape in ((2, 4, 3), (2, 4, 3), (2, 3)))
    found = scan(Diagonal(a), b, x, "fused")
    assert torch.equal(found, scan(Diagonal(a), b, x, "sequential"))
    assert not fits(Diagonal(a), b, x) and covers(Means.TRITON, x)
    (told,) = capsys.readouterr().err.splitlines()
    assert "fused_diagonal[step, 3] in float32 on cpu" in told
    assert [outcome.trusted for outcome in decision.told()] == [False]
