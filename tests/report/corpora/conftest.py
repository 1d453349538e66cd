"""Runs over corpora made up for the report: nothing here was trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.made_up_results import REFERENCE, make_split_result


@pytest.fixture
def write_splits(runs: Path) -> Callable[..., Path]:
    """Write a finished run over a corpus where it belongs, and return its folder."""

    def write_run(scores: Mapping[str, float], **changes: Any) -> Path:
        content = make_split_result(scores, **changes)
        names = [content[name] for name in ("task", "model", "protocol", "fingerprint")]
        folder = runs.joinpath(*names, f"s{content['seed']}")
        folder.mkdir(parents=True)
        (folder.parent / "config.json").write_text(json.dumps(content["config"]))
        (folder / "result.json").write_text(json.dumps(content))
        return folder

    return write_run


@pytest.fixture
def three(write_splits: Callable[..., Path]) -> Callable[..., None]:
    """Write three runs of a cell, a thousandth apart."""

    def write_runs(scores: Mapping[str, float], **changes: Any) -> None:
        for seed in range(3):
            shifted = {split: value + (seed - 1) / 1000 for split, value in scores.items()}
            write_splits(shifted, seed=seed, **changes)

    return write_runs


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """Reference tables with made-up values."""
    folder = tmp_path / "printed"
    folder.mkdir()
    (folder / "rir.csv").write_text(REFERENCE)
    return folder
