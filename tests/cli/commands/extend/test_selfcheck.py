"""`lrbench bench selfcheck`: kernels are checked once, shown again; refusals have reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.kernels.choice import installed
from lrbench.trust import decision
from lrbench.trust.outcomes import Kernel, TrustOutcome, keep

Run = Callable[..., Any]
WRONG = Kernel("layer_norm", "float32", (48,))


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """Answer checks here: WRONG is off, all others agree; return what was asked."""
    asked: list[Kernel] = []

    def check(kernel: Kernel) -> TrustOutcome:
        asked.append(kernel)
        return TrustOutcome(kernel, "value 0: off by 1" if kernel == WRONG else "", 0.25)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LRBENCH_COMPILED", "1")
    monkeypatch.setenv(decision.SWITCH, "1")
    monkeypatch.setattr("lrbench.trust.checker.check", check)
    return asked


@pytest.mark.skipif(not installed(), reason="needs numba: the extra `fast`")
def test_the_table(lrbench: Run, answers: list[Kernel], tmp_path: Path) -> None:
    keep(TrustOutcome(WRONG, "value 0: off by 1", 0.25))
    raw = tmp_path / "raw.json"
    command = ("bench", "selfcheck", "--device", "cpu")
    ended = lrbench(*command, "--output", str(raw))
    assert ended.code == 0 and WRONG not in answers
    (row,) = (line for line in ended.out.splitlines() if "off by" in line)
    assert row.split()[:3] == ["layer_norm", "48", "float32"]
    kept = json.loads(raw.read_text())
    assert len(kept["kernels"]) == len(answers) + 1
    assert {one["kernel"]["name"] for one in kept["kernels"]} >= {"layer_norm", "table_scan"}
    assert kept["environment"]["selfcheck"]["not used"] == {str(WRONG): "value 0: off by 1"}
    answers.clear()
    assert lrbench(*command).code == 0 and answers == []
    assert lrbench(*command, "--again").code == 0 and WRONG in answers
    said = lrbench("doctor").out
    assert f"{len(answers) - 1} proved themselves here, 1 not used" in said
    assert "layer_norm[48] in float32 on cpu: value 0: off by 1" in said


@pytest.mark.usefixtures("answers")
def test_what_cannot_be_checked(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = lrbench("bench", "selfcheck", "--dtype", "float16")
    assert ended.code == 2 and "float32 or float64" in ended.err
    monkeypatch.setenv("LRBENCH_COMPILED", "0")
    ended = lrbench("bench", "selfcheck")
    assert ended.code == 1 and "LRBENCH_COMPILED=0" in ended.err
