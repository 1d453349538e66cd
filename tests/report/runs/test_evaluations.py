"""What `lrbench evaluate` added to a finished run is in its report, and nothing is there twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lrbench.report.figures.data import panels
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.runs.record import baselines_by_split
from tests.made_up_results import make_split_result
from tests.report.conftest import run_folder

Write = Callable[..., Path]


def further(
    length: int, value: float | None, which: str = "best", **changes: Any
) -> dict[str, Any]:
    row = {"length": length, "split": "further", "metric": "accuracy", "value": value, "n": 1_000}
    return {**row, "which": which, "kind": "test", "chance": 0.21, **changes}


def add(folder: Path, name: str, *rows: dict[str, Any]) -> Path:
    (folder / "evaluations").mkdir(exist_ok=True)
    path = folder / "evaluations" / name
    path.write_text(json.dumps({"schema": 1, "when": name, "evaluations": rows}))
    return path


def added(runs: Path, length: int) -> pd.DataFrame:
    frame = collect(runs).frame
    return frame[frame["length"] == length]


def test_a_further_length_is_a_row(runs: Path, write: Write) -> None:
    add(write(), "1.json", further(100_003, 0.75))
    row = added(runs, 100_003).query("which == 'best'").iloc[0]
    assert (row["split"], row["kind"], row["value"], row["n"]) == ("further", "test", 0.75, 1_000)
    assert (row["chance"], row["checkpoint_step"]) == (0.21, 2000)
    assert pd.isna(row["chance_baseline"]) and pd.isna(row["guessing"])
    [panel] = panels(collect(runs), "best")
    assert (100_003.0, 0.75) in panel.curves[0].trials[0].by_length


def test_a_score_stands_under_each_rule_of_its_checkpoint(runs: Path, write: Write) -> None:
    folder = write()  # best and last are of update 2000, id of 1500, band of 1000
    add(folder, "1.json", further(100_003, 0.75))
    assert list(added(runs, 100_003)["which"]) == ["best", "last"]
    add(folder, "2.json", further(100_003, 0.5, "last"), further(100_003, 0.25, "id"))
    found = added(runs, 100_003).set_index("which")["value"].to_dict()
    assert found == {"best": 0.75, "id": 0.25, "last": 0.5}


def test_two_scores_of_one_checkpoint_are_no_two_of_a_third_rule(runs: Path, write: Write) -> None:
    folder = write()
    path = folder / "result.json"
    result = json.loads(path.read_text())
    path.write_text(
        json.dumps(result | {"checkpoints": dict.fromkeys(result["checkpoints"], 2000)})
    )
    add(folder, "1.json", further(100_003, 0.75), further(100_003, 0.75, "last"))
    assert sorted(added(runs, 100_003)["which"]) == ["band", "best", "id", "last"]


def test_the_newest_file_counts(runs: Path, write: Write) -> None:
    folder = write()
    for name, value in (("3.json", 0.3), ("1.json", 0.1), ("2.json", 0.2), (".4.json", 0.4)):
        add(folder, name, further(100_003, value))
    (folder / "evaluations" / "notes.txt").write_text("mine")
    assert set(added(runs, 100_003)["value"]) == {0.3}


def test_a_length_of_the_result_is_the_results(runs: Path, write: Write) -> None:
    before = render(collect(runs), "csv") if write() else ""
    add(runs / "sum/blockdiag/fan2024" / ("a" * 12) / "s0", "1.json", further(500, 0.1))
    assert render(collect(runs), "csv") == before


def test_a_row_of_another_checkpoint_is_no_score_of_this_run(runs: Path, write: Write) -> None:
    folder = write()
    add(folder, "1.json", further(997, 0.1), further(100_003, 0.1, checkpoint_step=1500))
    assert added(runs, 100_003).empty
    add(folder, "2.json", further(100_003, 0.1, checkpoint_step=2000))
    assert len(added(runs, 100_003)) == 2


def test_a_further_split_of_a_corpus(runs: Path) -> None:
    result = make_split_result({"near_iid": 0.6})
    folder = run_folder(runs, result)
    (folder / "result.json").write_text(json.dumps(result))
    rows = [
        further(900, value, split=split, baseline="root_digits")
        for split, value in (("near_iid", 0.1), ("args_10", 0.3))
    ]
    add(folder, "1.json", *rows)
    found = collect(runs).frame.query("kind == 'test' and which == 'best'")
    assert dict(zip(found["split"], found["value"], strict=True)) == {
        "near_iid": 0.6,
        "args_10": 0.3,
    }
    assert found["chance_baseline"].iloc[-1] == "root_digits"


def test_tables_count_nothing_twice(runs: Path, write: Write) -> None:
    folders = [write(seed=seed) for seed in range(3)]
    before = render(collect(runs))
    for folder in folders:
        add(folder, "1.json", further(100_003, 0.1), further(500, 0.1), further(40, 0.1))
    assert render(collect(runs)) == before


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("{", "is not json"),
        ("[]", "holds a list"),
        ('{"schema": 2}', "schema 2"),
        ('{"schema": 1}', "'evaluations' is missing"),
        ('{"schema": 1, "evaluations": [{}]}', "'evaluations[0].length' is missing"),
        (json.dumps({"schema": 1, "evaluations": [further(5, 1.5)]}), "no accuracy"),
    ],
)
def test_a_damaged_file_is_reported(runs: Path, write: Write, content: str, reported: str) -> None:
    path = add(write(), "1.json")
    path.write_text(content)
    found = collect(runs)
    assert len(found.runs) == 1
    [(place, reason)] = found.problems
    assert place == path and reported in reason


def test_odd_values_of_what_is_not_checked(runs: Path, write: Write) -> None:
    odd = further(100_003, None, chance="many", baseline=3, checkpoint_step="x")
    add(write(), "1.json", odd)
    row = added(runs, 100_003).iloc[0]
    assert row[["value", "chance", "chance_baseline"]].isna().all()


@pytest.mark.parametrize("value", [0, 1])
def test_an_accuracy_may_be_written_as_a_whole_number(runs: Path, write: Write, value: int) -> None:
    add(write(), "1.json", further(100_003, value))
    assert set(added(runs, 100_003)["value"]) == {value}  # once under each rule


def test_a_folder_that_is_none(runs: Path, write: Write) -> None:
    folder = write()
    (folder / "evaluations").write_text("")
    found = collect(runs)
    assert len(found.runs) == 1
    assert found.problems == [(folder / "evaluations", "cannot be listed: Not a directory")]


@pytest.mark.parametrize("n", [0, -1, True, "100", 2.0, None])
def test_strings_of_a_baseline_are_counted_or_not_told(n: object) -> None:
    row = {"split": "dev", "baseline": "majority", "value": 0.5}
    assert baselines_by_split({"baselines": [{**row, "n": n}]}) == {
        "dev": {"majority": (0.5, None)}
    }
    for strings in (1, 7):
        found = baselines_by_split({"baselines": [{**row, "n": strings}]})
        assert found == {"dev": {"majority": (0.5, strings)}}
