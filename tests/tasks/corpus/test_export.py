"""Splits as JSON lines, with sums that check them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.export import export
from lrbench.tasks.corpus.strings import Strings


def test_lines_and_sums(single: Strings, pairs: Strings, tmp_path: Path) -> None:
    written = export([("one", single), ("two", pairs)], tmp_path / "text")
    assert [path.name for path in written] == ["one.jsonl", "two.jsonl"]
    lines = [json.loads(line) for line in written[0].read_text().splitlines()]
    assert lines[:2] == [{"tokens": "a b c", "label": "no"}, {"tokens": "d", "label": "yes"}]
    assert len(lines) == 6
    lines = [json.loads(line) for line in written[1].read_text().splitlines()]
    assert lines[2] == {"left": "a", "right": "d c b a d", "label": "both"}
    for path in written:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.with_name(f"{path.name}.sha256").read_text() == f"{digest}  {path.name}\n"
    assert len(list((tmp_path / "text").iterdir())) == 4


def test_a_place_that_cannot_be_written_is_told(single: Strings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        export([("one", single)], tmp_path / "file")
