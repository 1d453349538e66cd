"""When loops are compiled, where the result is kept, and that many processes may do so at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lrbench
from lrbench.kernels import choice, compiler
from lrbench.kernels.choice import SWITCH, usable
from lrbench.kernels.compiler import Loop, part
from lrbench.kernels.lanes import every, load, mul, store
from lrbench.scan.blocks import constraints as blocks_constraints
from tests.both_ways import needs_numba

pytestmark = needs_numba

CONSTRAIN = """
import os, sys
from pathlib import Path
import torch
from lrbench.scan.blocks.constraints import constrain_few
torch.set_num_threads(1)

def constrain(size):
    blocks = constrain_few(torch.ones(2, size, size), "column_clip", 1.0)
    assert (blocks * size - 1).abs().max() < 1e-5, blocks

def kept():
    return {path.name for path in Path(sys.argv[1]).rglob("*.nb*")}

constrain(2)  # numba itself is ready then, and the two below meet
running = []
for _ in range(2):
    running.append(os.fork())
    if not running[-1]:
        code = 1
        try:
            constrain(3)
            code = 0
        finally:
            os._exit(code)
assert [os.waitpid(pid, 0)[1] for pid in running] == [0, 0]
before = kept()
assert [name for name in before if "blocks_forward-3-column_clip-float32" in name], before
constrain(3)
assert kept() == before, "compiled once more"
"""


def test_numbers_that_are_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert usable(torch.ones(1), "row_sums", 16) and usable(torch.ones(1).double(), "row_sums", 16)
    assert not usable(torch.ones(1).bfloat16(), "row_sums", 16)
    assert not usable(torch.ones(1, dtype=torch.complex64), "row_sums", 16)
    assert not usable(torch.ones(1, device="meta"), "row_sums", 16)
    monkeypatch.setenv(SWITCH, "0")
    assert not usable(torch.ones(1), "row_sums", 16)


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "installed", lambda by: False)
    assert not usable(torch.ones(1), "row_sums", 16)


def test_numba_is_imported_when_a_loop_is_wanted() -> None:
    package = Path(lrbench.__file__).parent
    with_loops = [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
        if "lrbench.kernels.compiler import" in path.read_text()
    ]
    assert len(with_loops) > 15
    code = f"import sys, {', '.join(with_loops)}"
    check = "assert not {'numba', 'llvmlite'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=True)


@pytest.mark.slow
def test_many_processes_may_compile_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once; a third finds what they left."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", CONSTRAIN, str(tmp_path)], check=True)


FACTOR = 2.0
PACKAGE = __name__.split(".")[0]


@part
def halved(x):  # type: ignore[no-untyped-def]
    return mul(x, every(1 / FACTOR, x))


def other(x):  # type: ignore[no-untyped-def]
    return mul(x, every(2 / FACTOR, x))


class Factor:
    """A number that nothing sees a change of."""


def make(wide: int) -> Loop:
    def loop(x, y):  # type: ignore[no-untyped-def]
        for at in range(0, len(x), wide):
            store(y, at, halved(load(x, at, wide)))

    return loop


def test_a_loop_is_made_from_its_parts_and_theirs() -> None:
    constraints = blocks_constraints.forward_loop(3, "column_clip", "float32")
    found = compiler.made_from(constraints.py_func)
    names = {key.split(" ")[0] for key in found}
    scan, kernels = "lrbench.scan.blocks.column", "lrbench.kernels"
    assert {f"{scan}.inverse_of", f"{kernels}.elementary.exp2", f"{kernels}.lanes.load"} <= names
    assert f"{kernels}.lanes.lanes_type" in names
    assert f"{kernels}.elementary.exp2.FORMATS" in names
    own = {key.split(" ")[0].split(".")[-1]: text for key, text in found.items()}
    assert own["b"] == "3" and own["MAX"] == "2"


def test_a_change_of_what_a_loop_is_made_from_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "PACKAGE", PACKAGE)
    here, states = sys.modules[__name__], [compiler.state_of(make(16))]
    assert compiler.state_of(make(16)) == states[0]
    states.append(compiler.state_of(make(8)))  # a constant that it closes over
    monkeypatch.setattr(here, "FACTOR", 4.0)  # one that a part of it names
    states.append(compiler.state_of(make(16)))
    monkeypatch.setattr(halved.function, "__code__", other.__code__)  # a constant in a part's code
    states.append(compiler.state_of(make(16)))
    monkeypatch.setitem(compiler.OPTIONS, "error_model", "python")
    states.append(compiler.state_of(make(16)))
    monkeypatch.setitem(compiler.PART, "forceinline", False)
    states.append(compiler.state_of(make(16)))
    assert len(set(states)) == 6


def test_what_would_go_unnoticed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "PACKAGE", PACKAGE)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", Factor())
    with pytest.raises(TypeError, match=r"halved names FACTOR"):
        compiler.state_of(make(16))


def test_a_part_is_no_function_of_python() -> None:
    with pytest.raises(TypeError, match="halved is a part of compiled loops"):
        halved(1.0)
