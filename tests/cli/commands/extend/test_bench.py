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


def test_fixed_point_prints_counts_beside_the_specified_ones(lrbench: Run, tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    tiny = ["--draws", "1", "--width", "8", "--batch", "2", "--lengths", "4", "--seconds", "0"]
    ended = lrbench("bench", "fixed_point", *tiny, "--output", str(raw))
    assert ended.code == 0 and "newton" in ended.out and "(14)" in ended.out
    assert len(json.loads(raw.read_text())["iterations"]) == 30


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["fixed_point", "--draws", "0"], "--draws must be at least 1"),
        (["fixed_point", "--figure", "x.png"], "must end in .svg or .pdf"),
        (["train", "--models", "s7"], "model 's7' unknown"),
        (["train", "--models", "blockdiag,blockdiag"], "names something twice"),
        (["modes", "--models", "blockdiag", "--rounds", "1"], "--rounds must be at least 3"),
        (["modes", "--models", "blockdiag", "--lengths", "0"], "--lengths"),
        (["modes", "--models", "blockdiag", "--lengths", "x"], "--lengths"),
        (["scan", "--batches", "1,many"], "--batches must be numbers"),
    ],
)
def test_mistakes_are_reported(lrbench: Run, arguments: list[str], reported: str) -> None:
    ended = lrbench("bench", *arguments)
    assert ended.code in (1, 2) and reported in ended.err and "Traceback" not in ended.err
