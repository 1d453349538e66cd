"""Outcomes on disk: whole or not at all, by machine and version, and never needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.trust import outcomes
from lrbench.trust.outcomes import Kernel, TrustOutcome, all_found, find, keep

KERNEL = Kernel("table_scan", "float64", (8, "a b/c"))


def test_what_is_kept_is_found(checks: Path) -> None:
    assert find(KERNEL) is None
    outcome = TrustOutcome(KERNEL, "off by 1", 0.5)
    assert keep(outcome)
    assert find(KERNEL) == outcome and not outcome.trusted
    keep(TrustOutcome(KERNEL, "", 0.25))
    assert list(all_found()) == [TrustOutcome(KERNEL, "", 0.25)]
    (path,) = (path for path in checks.rglob("*") if path.is_file())
    path.write_text(path.read_text()[:40])  # as after a full disk
    assert find(KERNEL) is None and not list(all_found())


def test_nowhere_to_write(checks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks.write_text("no folder")
    assert not keep(TrustOutcome(KERNEL, "", 0.5))
    assert find(KERNEL) is None and not list(all_found())


@pytest.mark.parametrize("changed", ["lrbench", "source", "torch", "device", "numba", "triton"])
def test_another_version_is_another_folder(
    checks: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(TrustOutcome(KERNEL, "", 0.5))
    other = {**outcomes.machine(), changed: "another"}
    monkeypatch.setattr(outcomes, "machine", lambda device="cpu": other)
    assert find(KERNEL) is None
