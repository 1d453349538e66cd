"""Outcomes on disk: whole or not at all, by machine and version, and never needed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from lrbench.trust import checker, decision, outcomes
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


class Interrupted(io.StringIO):
    def readline(self, size: int = -1, /) -> str:
        raise KeyboardInterrupt


class Unanswered:
    """A child that was asked and, as its answer was waited for, left alone by Ctrl-C."""

    def __init__(self) -> None:
        self.stdin, self.stdout = io.StringIO(), Interrupted()

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> int:
        return -9


def test_an_answer_that_nobody_waited_for_is_not_that_to_the_next_question(
    checks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Unanswered()
    monkeypatch.setattr(checker, "_child", lambda: child)
    monkeypatch.setattr(checker, "_children", {os.getpid(): child})
    with pytest.raises(KeyboardInterrupt):
        checker.check(KERNEL)
    assert child.killed and not checker._children


def test_what_could_not_be_tried_is_not_kept(checks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For once there was no process to try it in: later ones try again."""

    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(checker.subprocess, "Popen", refused)
    outcome = decision.checked(KERNEL)
    assert outcome.reason.startswith(checker.NO_PROCESS) and not outcome.trusted
    assert find(KERNEL) is None


def test_a_check_that_was_killed_is_not_kept(checks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system kills a process when memory runs out, before it has answered."""
    child = checker._child()
    monkeypatch.setattr(checker, "_child", lambda: child)
    child.kill()
    outcome = decision.checked(KERNEL)
    assert outcome.reason == "its process ended: SIGKILL" and not outcome.trusted
    assert find(KERNEL) is None
