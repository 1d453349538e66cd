"""Strings that several tests look at, drawn or read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.released import read_d20s
from lrbench.tasks.listops.splits import NANGIA_SPLITS, cut


@pytest.fixture(scope="session")
def released(shared: Path) -> Strings:
    """The released test file, read by the reader."""
    return read_d20s(shared / "data" / "listops" / "test_d20s.tsv")


@pytest.fixture(scope="session")
def saturated() -> Strings:
    """All 100,000 strings of the family of train, seed 0."""
    return NANGIA_SPLITS.draw(0, lambda done: None)


@pytest.fixture(scope="session")
def nangia(saturated: Strings) -> dict[str, Strings]:
    """Its splits."""
    return dict(cut(NANGIA_SPLITS, saturated, 0))
