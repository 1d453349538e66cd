"""Freed memory is kept: what is made again costs no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lrbench.training import memory
from lrbench.training.memory import PeakMemory, keep_freed_memory

FAULTS = """
import resource
from lrbench.training.memory import keep_freed_memory
def work():
    parts = [b"x" * (4 << 20) for _ in range(8)]
def faults():
    work()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
default = faults()
assert keep_freed_memory()
kept = faults()
assert kept < default / 4, (kept, default)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc here")
def test_memory_is_not_handed_back() -> None:
    subprocess.run([sys.executable, "-c", FAULTS], check=True, timeout=60)


def test_elsewhere_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert keep_freed_memory() is False


def test_peak_is_in_mib_on_both_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """getrusage counts KiB on Linux, bytes on a Mac."""
    with PeakMemory(torch.device("cpu")) as known:
        pass
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "clear_refs")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    with PeakMemory(torch.device("cpu")) as linux:
        pass
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with PeakMemory(torch.device("cpu")) as mac:
        pass
    assert linux.mib >= 0.9 * known.mib > 10  # it does not forget what was before
    assert mac.mib == pytest.approx(linux.mib / 1024, rel=0.1)
