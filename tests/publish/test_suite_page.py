"""The page of a suite: the picture first, who may enter, what was tried; and made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.report.suite.conftest import enter  # noqa: F401

TESTED = {"lengths": [40], "strings": 2000, "fewer": 400, "data_seed": 424242}
SEARCH = {"max_steps": 2000, "test": TESTED}
MINE: dict[str, Any] = {"name": "mine", "width": 64}


@pytest.fixture
def runs(tmp_path: Path, enter: Callable[..., Path]) -> Path:  # noqa: F811
    """A whole entry of a model that the table does not list, and one run of a listed one."""
    for at in range(12):
        for rate, loss in ((0.001, 0.3), (0.003, 0.1), (0.01, 0.2)):
            enter(at, lambda _: 1.0, MINE, seed=1000, lr=rate, protocol=SEARCH, loss=loss)
        for seed in range(3):
            enter(at, lambda length: 1.0 if length <= 500 else 0.3, MINE, seed=seed, lr=0.003)
    enter(0, lambda _: 1.0, {"name": "lstm"}, lr=0.003)
    return tmp_path / "runs"


def test_a_suites_page(lrbench: Any, runs: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    ended = lrbench("publish", "suite_v1", "--runs", str(runs), "--output", str(results))
    assert ended.code == 0, ended.err
    assert "73 runs copied" in ended.err
    text = (results / "suite_v1" / "README.md").read_text()
    assert text.index("figures/figure_horizons.svg") < text.index("## Table")
    assert text.index("## Table") < text.index("figures/figure_price.svg")
    unfinished = text.partition("## Unfinished")[2].partition("## How sure")[0]
    assert "**mine**" not in unfinished
    assert "- **lstm**: parity: no run of seed 1, 2; sum 5: no run of seed 0, 1, 2;" in unfinished
    assert "`lrbench sweep --table suite_v1 model=lstm`" in unfinished
    assert "the search" in text.partition("## How sure")[2]
    row = (results / "README.md").read_text().splitlines()[-1]
    assert row.split(" | ")[1:3] == ["2 x 10", "37 runs, and 36 of the search"]
    again = lrbench("publish", "--check", "--rebuild", str(results))
    assert again.code == 0, again.out


@pytest.mark.parametrize("words", [("publish", "suite_v1"), ("bundle", "--table", "suite_v1")])
def test_a_fingerprint_chooses_no_run_of_a_suite(
    lrbench: Any, runs: Path, words: tuple[str, ...]
) -> None:
    ended = lrbench(*words, "--runs", str(runs), "--fingerprint", "abcd")
    assert (ended.code, ended.out) == (2, "")
    assert "--fingerprint chooses between runs" in ended.err


def test_only_the_runs_that_are_named_are_published(
    lrbench: Any, runs: Path, tmp_path: Path
) -> None:
    """A model that the table lists, and one that it does not; tasks are named as `sweep` does."""
    results = tmp_path / "results"
    at = "--runs", str(runs), "--output", str(results)
    for words, copied in ((["model=lstm"], "1 run"), (["task=parity", "model=mine"], "6 runs")):
        ended = lrbench("publish", "suite_v1", *words, *at)
        assert ended.code == 0, ended.err
        assert f"{copied} copied" in ended.err
    found = {path.parts[-6:-4] for path in results.rglob("s*/result.json")}
    assert found == {("parity", "lstm"), ("parity", "mine")}
