"""Examine a mixer class that is registered for one test only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lrbench.contract import Finding, run_contract
from lrbench.registry import MIXERS, Entry

from .broken import LeakyConfig

Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Return examine(class, words): the findings of its contract, by name."""

    def run(cls: type, arguments: tuple[str, ...] = (), **options: Any) -> dict[str, Finding]:
        entry = Entry("subject", cls, LeakyConfig, "a test")
        monkeypatch.setitem(MIXERS._entries, "subject", entry)
        return {finding.name: finding for finding in run_contract("subject", arguments, **options)}

    return run
