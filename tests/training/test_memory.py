"""Freed memory is kept: what is made again costs no page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lrbench.training.memory import keep_freed_memory

FAULTS = """
import resource, sys
from lrbench.training.memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
def work():
    parts = [b"x" * (4 << 20) for _ in range(8)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 3:
        pytest.skip("no glibc here")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_memory_is_not_handed_back() -> None:
    assert faults("keep") < faults("default") / 4


def test_elsewhere_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert keep_freed_memory() is False
