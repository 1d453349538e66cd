"""Every kernel that is asked for has a case, reaches it, and agrees; differences are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from lrbench.kernels.choice import installed
from lrbench.scan.matrix.by_values import KEPT, ByValues
from lrbench.scan.matrix.duality_loops import DUAL_SCAN
from lrbench.scan.matrix.householder_loops import DELTA_RULE
from lrbench.trust.cases import CASES, LAYOUTS, MEANS
from lrbench.trust.child import difference, fault
from lrbench.trust.outcomes import Kernel

NUMBA = [name for name in CASES if name not in MEANS]


def test_every_kernel_has_a_case(root: Path) -> None:
    asked = set()
    for path in (root / "lrbench").rglob("*.py"):
        asked |= set(re.findall(r'\busable\(\s*[\w.]+, "(\w+)"', path.read_text()))
    asked |= {"generated_blocks", "perceptron_blocks"}  # by the kind of blocks
    asked |= {DELTA_RULE.name, DUAL_SCAN.name}
    asked |= {"fused_blocks", "fused_diagonal"}  # by the form of a transition
    assert asked == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBA)
def test_kernels_agree(name: str) -> None:
    if not installed():
        pytest.skip("needs numba: the extra `fast`")
    assert fault(Kernel(name, "float32", LAYOUTS.get(name, ()))) == ""


@pytest.mark.parametrize("loops", [DELTA_RULE, DUAL_SCAN], ids=lambda loops: str(loops.name))
def test_a_backward_keeps_the_states_of_a_part_of_its_case(
    loops: ByValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does between two parts is checked, too."""
    if not installed():
        pytest.skip("needs numba: the extra `fast`")
    plain, seen = ByValues._backward, []

    def backward(self: ByValues, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_value = self.kept(inputs[:-1]) * inputs[-2].shape[-1] * inputs[0].element_size()
        seen.append(inputs[0].shape[1] > KEPT // (of_value * 16))
        return plain(self, *inputs)

    monkeypatch.setattr(ByValues, "_backward", backward)
    monkeypatch.setitem(vars(loops), "_form", ByValues._form.func(loops))  # type: ignore[attr-defined]
    assert fault(Kernel(loops.name, "float32", (16, 1))) == "" and seen == [True]


def test_differences() -> None:
    one = torch.linspace(-1, 1, 7)
    assert difference(one + 1e-6, one) == ""
    assert "off by 0.001" in difference(one + 1e-3, one)
    assert "finite" in difference(one.log(), one)
    assert "(7,)" in difference(one, one[:3])
    assert difference(torch.arange(3), torch.arange(3).flip(0)) == "other numbers"


def test_a_case_that_misses_its_kernel_is_told() -> None:
    if not installed():
        pytest.skip("needs numba: the extra `fast`")
    assert fault(Kernel("layer_norm", "float32", (17,))) == "its case does not reach it"


@pytest.mark.parametrize("left", ["row", "column", "neither"])
def test_products_agree(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without oneDNN")
    monkeypatch.setattr("lrbench.kernels.choice.installed", lambda by: True)
    assert fault(Kernel("onednn_product", "float32", (left, "column"))) == ""
    monkeypatch.setattr("lrbench.kernels.products._by_onednn", lambda a, b: (a @ b).neg())
    assert fault(Kernel("onednn_product", "float32", (left, "column"))).startswith("value 0: off")
