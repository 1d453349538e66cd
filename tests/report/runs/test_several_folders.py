"""Several folders read together: every run once, and where each of them was found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from tests.report.conftest import make_result, run_folder
from tests.report.runs.test_archive import published

Write = Callable[..., Path]


def put(runs: Path, **changes: Any) -> None:
    result = make_result(**changes)
    (run_folder(runs, result) / "result.json").write_text(json.dumps(result))


def test_one_folder_and_another_are_as_one_that_holds_both(
    tmp_path: Path, runs: Path, write: Write
) -> None:
    write(seed=0, accuracy=0.5)
    other = tmp_path / "other"
    put(other, seed=1, accuracy=0.75)
    found = collect(runs, other)
    place = f"sum/blockdiag/fan2024/{'a' * 12}"
    assert list(found.runs["folder"]) == [
        f"{runs.as_posix()}/{place}/s0",
        f"{other.as_posix()}/{place}/s1",
    ]
    assert found.settings_of(f"{other.as_posix()}/{place}/s1")["task.modulus"] == 5
    put(runs, seed=1, accuracy=0.75)
    table = render(collect(runs), "markdown").split("\n\n")[1]
    assert table in render(found, "markdown")


def test_a_published_table_beside_ones_own_runs(tmp_path: Path, runs: Path, write: Write) -> None:
    write(seed=0)
    old = published(collect(runs), tmp_path / "published")
    own = tmp_path / "own"
    put(own, model="mine", fingerprint="b" * 12, lr=3e-4)
    for order in ((own, old), (old, own), (own, old / "runs.csv")):
        found = collect(*order)
        assert sorted(found.runs["model"]) == ["blockdiag", "mine"]
        assert found.varying == ("model.name", "optim.lr")
        assert found.problems == []
    assert set(found.runs["folder"].str.split("/sum/").str[0]) == {str(own), str(old)}


def test_a_run_in_two_folders_counts_once_where_it_was_found_first(
    tmp_path: Path, runs: Path, write: Write
) -> None:
    write(seed=0)
    copy = tmp_path / "copy"
    shutil.copytree(runs, copy)
    for first, second in ((runs, copy), (copy, runs)):
        found = collect(first, second)
        assert [Path(folder).is_relative_to(first) for folder in found.runs["folder"]] == [True]
        ((path, reason),) = found.problems
        assert path.is_relative_to(second)
        assert reason.startswith(f"the same run as {first}")


def test_the_same_folder_twice_is_one(runs: Path, write: Write) -> None:
    write(seed=0)
    assert collect(runs, runs).problems == []
    assert list(collect(runs, runs).runs["folder"]) == list(collect(runs).runs["folder"])


def test_each_folder_must_be_there(tmp_path: Path, runs: Path, write: Write) -> None:
    write(seed=0)
    with pytest.raises(UserError, match=r"no folder of runs at '.*nowhere'"):
        collect(runs, tmp_path / "nowhere")
