"""When loops are compiled, where the result is kept, and that many processes may do so at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

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
from lrbench.scan.blocks.indexed import table_scan
torch.set_num_threads(1)
ones = torch.ones(2, 1, 3, 3)
states = table_scan(ones, ones[..., 0], torch.tensor([[0, 1, 1]]), ones[:1, :, 0])
assert states[0, :, 0, 0].tolist() == [4.0, 13.0, 40.0], states
"""


def test_every_compiled_constraint_is_tested() -> None:
    from lrbench.scan.compiled.scans.column import RULES

    assert tuple(RULES) == CONSTRAINTS


def test_numbers_that_are_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert usable(torch.ones(1), "row_sums", 16) and usable(torch.ones(1).double(), "row_sums", 16)
    assert not usable(torch.ones(1).bfloat16(), "row_sums", 16)
    assert not usable(torch.ones(1, dtype=torch.complex64), "row_sums", 16)
    assert not usable(torch.ones(1, device="meta"), "row_sums", 16)
    monkeypatch.setenv(SWITCH, "0")
    assert not usable(torch.ones(1), "row_sums", 16)


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "installed", lambda: False)
    assert not usable(torch.ones(1), "row_sums", 16)


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


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder of compiled loops, which is what digests are taken of."""
    package = tmp_path / "lrbench"
    folder = package / "scan" / "compiled"
    shutil.copytree(compiler.PACKAGE / "scan" / "compiled", folder)
    monkeypatch.setattr(compiler, "PACKAGE", package)
    compiler.state_of.cache_clear()
    yield folder
    compiler.state_of.cache_clear()


def digest_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(compiler, "import_module", lambda _: SimpleNamespace(__file__=path))
    compiler.state_of.cache_clear()
    return compiler.state_of("any")


def test_a_change_of_what_a_loop_is_made_from_is_noticed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = copied / "scans" / "constraints.py"
    names = {str(path.relative_to(copied)) for path in compiler.sources(loop)}
    parts = {"compiler.py", "lanes.py", "power.py", "scans/column.py"}
    assert names == {"scans/constraints.py", *parts}
    before = digest_of(loop, monkeypatch)
    (copied / "layers" / "norm.py").write_text("changed = 1")
    assert digest_of(loop, monkeypatch) == before
    for part in sorted(parts):
        text = (copied / part).read_text()
        (copied / part).write_text(f"{text}\nchanged = 1")
        assert digest_of(loop, monkeypatch) != before, part
        (copied / part).write_text(text)
        assert digest_of(loop, monkeypatch) == before


@pytest.mark.parametrize(
    "line",
    [
        "from lrbench.scan.compiled.parts.deep.inner import f",
        "from lrbench.scan.compiled.parts.deep import inner",
        "import lrbench.scan.compiled.parts.deep.inner",
        "from .parts.deep.inner import f",
        "from ..compiled.parts.deep import inner",
        "def make():\n    from lrbench.scan.compiled.parts.deep.inner import f",
    ],
)
def test_a_part_in_any_folder_is_noticed(
    line: str, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = copied / "parts" / "deep" / "inner.py"
    inner.parent.mkdir(parents=True)
    inner.write_text("def f(): pass")
    loop = copied / "loop.py"
    loop.write_text(line)
    assert compiler.sources(loop) == [loop, inner]
    before = digest_of(loop, monkeypatch)
    inner.write_text("def f(): return 1")
    assert digest_of(loop, monkeypatch) != before


def test_every_loop_is_made_from_files_that_are_found() -> None:
    """Every module that a compiled one imports from this package is one of its sources.

    Not the package `trust`: it decides whether a loop is used, and no loop is made of it.
    """
    folder = compiler.PACKAGE / "scan" / "compiled"
    for path in folder.rglob("*.py"):
        lines = [line.split() for line in path.read_text().splitlines()]
        modules = {words[1] for words in lines if words[:1] == ["from"] and "lrbench" in words[1]}
        files = {compiler.PACKAGE.parent.joinpath(*name.split(".")) for name in modules}
        files.discard(compiler.PACKAGE / "trust")
        assert {file.with_suffix(".py") for file in files} <= set(compiler.sources(path))
