"""`lrbench publish`: what it takes, without torch; what it does is in tests/publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.publish.conftest import write_run

Run = Callable[..., Any]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fan2024_table2", "--rebuild", "results"),
        ("fan2024_table2", "--check"),
        ("fan2024_table2", "--page", "README.md"),
        ("--rebuild", "results", "--force"),
        ("--rebuild", "results", "--fingerprint", "abcd"),
        ("--rebuild", "results", "--runs", "mine", "--output", "elsewhere"),
    ],
)
def test_words_that_do_not_go_together(lrbench: Run, arguments: tuple[str, ...]) -> None:
    ended = lrbench("publish", *arguments)
    assert ended.code == 2 and "--rebuild DIR" in ended.err


def test_a_table_of_runs_without_torch(
    tmp_path: Path, without_torch: Callable[..., tuple[list[int], str]]
) -> None:
    for seed in range(2):
        write_run(tmp_path / "outputs", task="sum", seed=seed, stop="perfect")
    lines = [
        ["publish", "fan2024_column"],
        ["publish", "--rebuild", "results", "--check"],
        ["publish", "--help"],
    ]
    codes, out = without_torch(lines)
    assert codes == [0, 0, 0] and "lrbench publish fan2024_table2" in out
    page = (tmp_path / "results" / "fan2024_column" / "README.md").read_text()
    assert "**sum x blockdiag**: 0 of 5 runs have ended, 2 with other settings (¶)" in page
