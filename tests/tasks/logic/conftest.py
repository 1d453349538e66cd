"""The released pairs, read once, and ours, drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.generator import FormulaPairs, draw
from lrbench.tasks.logic.released import read_files


@pytest.fixture(scope="session")
def released_folder(shared: Path) -> Path:
    return shared / "data" / "proplogic"


@pytest.fixture(scope="session")
def released(released_folder: Path) -> dict[str, Strings]:
    """train0..train6, test0..test12, every label recomputed."""
    return read_files(released_folder)


@pytest.fixture(scope="session")
def drawn() -> tuple[FormulaPairs, int]:
    """All 500,000 pairs of seed 0, and how many were rejected."""
    return draw(0)
