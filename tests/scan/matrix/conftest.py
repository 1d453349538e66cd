"""What tests of matrix states share."""

from __future__ import annotations

import pytest

from lrbench.kernels.choice import SWITCH


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take chunks themselves, where compiled loops would stand in for them."""
    monkeypatch.setenv(SWITCH, "0")
