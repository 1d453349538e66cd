"""Kernels compile for GPUs that are not here, into the loads and registers that they count on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from lrbench.kernels.choice import INTERPRETER

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Compile, in a process where triton is not interpreted."""
    pytest.importorskip("triton", reason="triton comes with CUDA builds of torch")
    from triton.compiler import ASTSource

    if "constexprs" not in signature(ASTSource.__init__).parameters:
        pytest.skip("this triton has another name for an argument, as 3.2 has")
    environment = {key: value for key, value in os.environ.items() if key != INTERPRETER}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    command = [sys.executable, "-m", "tests.scan.fused.compile_kernels"]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return dict(json.loads(found.stdout))


def test_blocks_are_on_their_way_before_they_are_needed(
    compiled: dict[str, dict[str, int]],
) -> None:
    for name in ("blocks 8 forward", "blocks 8 backward", "blocks 16 forward"):
        assert compiled[name]["asynchronous loads of 16 bytes"] > 0


def test_gradients_are_written_16_bytes_at_a_time(compiled: dict[str, dict[str, int]]) -> None:
    assert compiled["blocks 8 backward"]["stores of 16 bytes"] > 0


def test_a_kernel_is_launched_a_second_time(compiled: dict[str, dict[str, int]]) -> None:
    """What triton compares before each launch is equal to itself; NaN is not."""
    assert [name for name, kernel in compiled.items() if kernel["globals that change"]] == []


def test_no_kernel_spills_its_registers(compiled: dict[str, dict[str, int]]) -> None:
    assert len(compiled) > 5
    assert {name: kernel["spilled"] for name, kernel in compiled.items() if kernel["spilled"]} == {}
