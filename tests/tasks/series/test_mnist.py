"""IDX files: read as they are, refused where they are not what they should be."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.series.mnist import read_idx
from tests.made_up_mnist import idx

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = idx(ARRAY)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_was_written_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(gzip.compress(WHOLE) if suffix else WHOLE)
    assert np.array_equal(read_idx(path, 3), ARRAY)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends after 0 bytes"),
        (WHOLE[:10], "ends after 10 bytes"),
        (WHOLE[:-1], "ask for 24 bytes, it has 23"),
        (WHOLE + b"x", "ask for 24 bytes, it has 25"),
        (b"\0\0\x0d\x03" + WHOLE[4:], "begins with 00000d03, not 00000803"),
        (idx(ARRAY[0]) + bytes(4), "begins with 00000802, not 00000803"),
        (b"<!DOCTYPE html>" * 9, "begins with 3c21444f"),
        (WHOLE[:4] + b"\xff" * 12 + WHOLE[16:], "bytes, it has 24"),
    ],
    ids=["empty", "head", "short", "long", "type", "dimensions", "html", "sizes"],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        read_idx(path, 3)
    assert why in str(error.value) and str(path) in str(error.value)
    assert len(str(error.value).splitlines()) <= 6


@pytest.mark.parametrize("cut", [5, 20, -4])
def test_a_compressed_file_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(WHOLE)[:cut])
    with pytest.raises(UserError, match="cannot be unpacked"):
        read_idx(path, 3)


def test_a_file_that_is_not_compressed_or_not_there_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(WHOLE)
    with pytest.raises(UserError, match="cannot be unpacked"):
        read_idx(path, 3)
    with pytest.raises(UserError, match="No such file"):
        read_idx(tmp_path / "none", 3)
