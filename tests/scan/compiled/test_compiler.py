"""When loops are compiled, where the result is kept, and that many processes may do so at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lrbench.scan.compiled import compiler
from lrbench.scan.compiled.compiler import SWITCH, usable

from .conftest import CONSTRAINTS

SCAN = """
import os, sys
from pathlib import Path
from lrbench.scan.compiled import compiler
import torch
from lrbench.scan.indexed import table_scan
torch.set_num_threads(1)
ones = torch.ones(2, 1, 3, 3)
states = table_scan(ones, ones[..., 0], torch.tensor([[0, 1, 1]]), ones[:1, :, 0])
assert states[0, :, 0, 0].tolist() == [4.0, 13.0, 40.0], states
"""


def test_every_compiled_constraint_is_tested() -> None:
    from lrbench.scan.compiled.column import RULES

    assert tuple(RULES) == CONSTRAINTS


def test_numbers_that_are_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert usable(torch.ones(1)) and usable(torch.ones(1).double())
    assert not usable(torch.ones(1).bfloat16())
    assert not usable(torch.ones(1, dtype=torch.complex64))
    assert not usable(torch.ones(1, device="meta"))
    monkeypatch.setenv(SWITCH, "0")
    assert not usable(torch.ones(1))


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "installed", lambda: False)
    assert not usable(torch.ones(1))


def test_numba_is_imported_when_a_loop_is_wanted() -> None:
    code = "import sys, lrbench.training.trial, lrbench.mixers.block_diagonal.blockdiag"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'numba' not in sys.modules"], check=True)


@pytest.mark.slow
def test_many_processes_may_compile_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    running = [subprocess.Popen([sys.executable, "-c", SCAN]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    kept = {path.name for path in tmp_path.rglob("*.nb*")}
    assert [name for name in kept if "table_forward-3-float32" in name]
    subprocess.run([sys.executable, "-c", SCAN], check=True)
    assert {path.name for path in tmp_path.rglob("*.nb*")} == kept, "compiled once more"


def test_a_change_of_what_a_loop_is_made_from_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Path(compiler.__file__).parent
    for path in folder.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(compiler, "__file__", str(tmp_path / "compiler.py"))
    names = {path.name for path in compiler.sources(tmp_path / "blocks.py")}
    assert names == {"blocks.py", "column.py", "compiler.py", "lanes.py", "power.py"}

    def state() -> str:
        compiler.state_of.cache_clear()
        return compiler.state_of("lrbench.scan.compiled.blocks")

    before = state()
    (tmp_path / "norm.py").write_text("changed")
    assert state() == before
    (tmp_path / "lanes.py").write_text("changed")
    assert state() != before
    compiler.state_of.cache_clear()
