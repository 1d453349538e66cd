"""Small files in the released formats: two reviews short of nothing, and a few pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lrbench.tasks.lra import released

EACH = 20  # reviews in a folder
STARS = {"neg": 2, "pos": 9}
PAIRS = (
    (b"1.0", b"first of a", b"second of a"),
    (b"0.0", b'"quoted" and "half', b"it's \xe2\x82\xac 5"),
    (b"1", b"", b"the other is empty"),
    (b"0", b"x" * 5000, b"\xff\x00\r not UTF-8"),
)
Line = tuple[bytes, bytes, bytes]


def line(label: bytes, first: bytes, second: bytes) -> bytes:
    return b"\t".join([label, b"P00-1001", b"P00-1002", first, second]) + b"\n"


def review(half: str, name: str, number: int) -> bytes:
    """Return the text of a review, another for each."""
    return f"{half} {name} {number} ".encode() + b"\xc3\xa9!" * number


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with aclImdb/ of 20 reviews a folder, as if there were no more."""
    monkeypatch.setattr(released, "REVIEWS", EACH)
    folder = tmp_path / "given"
    for half in ("train", "test"):
        for name, stars in STARS.items():
            inside = folder / "aclImdb" / half / name
            inside.mkdir(parents=True)
            for number in range(EACH):
                (inside / f"{number}_{stars}.txt").write_bytes(review(half, name, number))
    return folder


@pytest.fixture
def write_pairs(tmp_path: Path) -> Callable[..., Path]:
    """Write the three files of Retrieval; return their folder."""

    def write(rows: Sequence[Line] = PAIRS) -> Path:
        folder = tmp_path / "pairs"
        folder.mkdir(exist_ok=True)
        for name in ("train", "eval", "test"):
            text = b"".join(line(*row) for row in rows)
            (folder / f"new_aan_pairs.{name}.tsv").write_bytes(text)
        return folder

    return write
