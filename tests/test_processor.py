"""What /proc/cpuinfo says, if it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench import processor
from lrbench.processor import processor_says

TOLD = b"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: A \xff: B\n\nvendor_id\t: Other\n"


def test_the_first_processor_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_bytes(TOLD)
    monkeypatch.setattr(processor, "PLACE", tmp_path / "cpuinfo")
    assert processor_says("vendor_id") == "AuthenticAMD"
    assert processor_says("model name") == "A \ufffd: B"
    assert processor_says("name") is None


def test_nothing_is_known_where_nothing_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "PLACE", tmp_path)
    assert processor_says("vendor_id") is None
