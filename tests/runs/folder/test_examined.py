"""What is scored of an examination that was cut off, and what of it is believed later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.records import evaluation
from lrbench.runs.folder import files
from lrbench.runs.folder.examined import Examined

WEIGHTS = {"w": torch.tensor([1.0, 2.0])}
OTHERS = {"w": torch.tensor([1.0, 2.5])}
ROW = evaluation(500, "test", "accuracy", 1 / 3, 12, kind="test", seconds=2.5)
HORIZON: Any = {"text": "at most 500", "lower": 40, "upper": 500}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "examination.jsonl"


def of(path: Path) -> Examined:
    """Return the scores as a process that has just begun finds them."""
    return Examined(lambda rule: WEIGHTS, path)


def test_another_process_finds_what_was_scored(path: Path) -> None:
    of(path).keep(WEIGHTS, "tests", 7, ([ROW], HORIZON))
    of(path).keep(WEIGHTS, "near_iid", 7, ([ROW, ROW], None))
    found = of(path)
    assert found.scored(WEIGHTS, "tests") == ([ROW], HORIZON)
    assert found.scored(WEIGHTS, "near_iid") == ([ROW, ROW], None)
    assert found.seconds == 7.5
    assert found("last") is WEIGHTS


def test_scores_of_other_weights_or_another_section_are_nobodys(path: Path) -> None:
    assert of(path).scored(WEIGHTS, "tests") is None
    of(path).keep(WEIGHTS, "tests", 7, ([ROW], None))
    assert of(path).scored(OTHERS, "tests") is None
    assert of(path).scored(WEIGHTS, "near_iid") is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": 7, "sec',
        b"\x00\xff\n",
        b'{"step": 7, "section": "tests", "weights": "%w", "rows": [{}], "horizon": null}\n',
        b'{"step": 7, "section": "tests", "weights": "%w", "rows": 3, "horizon": null}\n',
        b'{"step": 7, "section": "tests", "weights": "%w", "rows": [], "horizon": {"text": 1}}\n',
    ],
)
def test_a_damaged_line_is_passed_over(line: bytes, path: Path) -> None:
    of(path).keep(WEIGHTS, "tests", 7, ([ROW], None))
    digest = files.read_lines(path)[0]["weights"].encode()
    path.write_bytes(path.read_bytes() + line.replace(b"%w", digest))
    assert of(path).scored(WEIGHTS, "tests") == ([ROW], None)
    of(path).keep(WEIGHTS, "near_iid", 7, ([ROW], None))
    assert of(path).scored(WEIGHTS, "near_iid") == ([ROW], None)


def test_what_json_cannot_hold_is_scored_again(path: Path) -> None:
    of(path).keep(WEIGHTS, "tests", 7, ([{**ROW, "value": float("nan")}], None))
    assert of(path).scored(WEIGHTS, "tests") is None
