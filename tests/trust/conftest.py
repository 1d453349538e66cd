"""Self-checks switched on, with a cache and a child process of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lrbench.trust import SWITCH, checker, decision


@pytest.fixture
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Check kernels in a test; outcomes go to the folder that this gives."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("LRBENCH_COMPILED", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checker.stop()
    monkeypatch.setattr(decision._process, "outcomes", {})
    yield tmp_path / "cache"
    checker.stop()
