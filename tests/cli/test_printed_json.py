"""JSON on stdout: text that any program can read, whatever the terminal has."""

from __future__ import annotations

import io
import json
import sys

import pytest

from lrbench.cli.printed_json import print_json


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_it_is_utf8_and_what_that_lacks_is_escaped(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message may name a file whose name is not UTF-8; latin-1 has no JSON."""
    content = {"text": "Delétang", "message": "no file caf\udce9.txt", "value": float("nan")}
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json(content)
    stream.flush()
    assert json.loads(raw.getvalue().decode()) == {**content, "value": None}
    assert "Delétang".encode() in raw.getvalue()
