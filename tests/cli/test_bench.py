"""`lrbench bench` as a user runs it: tables on stdout, raw numbers in a file, mistakes told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_as_a_user_would_run_it(lrbench: Run, tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    tiny_words = ["model.width=8", "protocol.batch_size=4", "protocol.train_length=6"]
    options = ["--models", "blockdiag", "--seconds", "0", "--output", str(raw)]
    ended = lrbench("bench", "train", *options, *tiny_words)
    assert (ended.code, ended.out.split()[:2]) == (0, ["sum", "parameters"])
    assert json.loads(raw.read_text())["costs"][0]["model"] == "blockdiag"
    ended = lrbench("bench", "modes", *options, "--lengths", "3,5", "model.width=8")
    assert ended.code == 0 and "step loop" in ended.out
    assert {cost["length"] for cost in json.loads(raw.read_text())["costs"]} == {3, 5}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "--models", "s7"], "model 's7' unknown"),
        (["train", "--models", "blockdiag,blockdiag"], "names something twice"),
        (["modes", "--models", "blockdiag", "--rounds", "1"], "--rounds must be at least 3"),
        (["modes", "--models", "blockdiag", "--lengths", "0"], "--lengths"),
        (["modes", "--models", "blockdiag", "--lengths", "x"], "--lengths"),
    ],
)
def test_mistakes_are_told(lrbench: Run, words: list[str], told: str) -> None:
    ended = lrbench("bench", *words)
    assert ended.code in (1, 2) and told in ended.err and "Traceback" not in ended.err
