"""The report without a choice, runs.csv, the other formats, and figures of runs over corpora."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.report.figures.data import panels
from lrbench.report.figures.draw import draw
from lrbench.report.figures.positions import position
from lrbench.report.output.render import FORMATS, render
from lrbench.report.runs.collect import collect
from lrbench.report.runs.schema import result_complaint
from lrbench.report.tables.request import Request
from lrbench.report.tables.summary_table import report_tables
from lrbench.tables import load_table
from tests.made_up_results import make_split_result

Write = Callable[..., Any]
B = "b" * 12


def test_golden_markdown(runs: Path, three: Write, write_splits: Write, printed: Path) -> None:
    three({"near_iid": 0.59, "args_10": 0.4})
    write_splits({"near_iid": 0.5}, fingerprint=B, stopped="budget")
    text = render(collect(runs), references=printed)
    golden = Path(__file__).parent / "golden_splits.md"
    assert text == golden.read_text()


def test_a_table_for_each_task_and_training_split(runs: Path, write_splits: Write) -> None:
    write_splits({"lra_test": 0.55}, source="lra_train")
    write_splits({"near_iid": 0.55}, fingerprint=B)
    write_splits({"test_8": 0.7}, task="logic")
    assert [table.title for table in report_tables(collect(runs))] == [
        "rir2023: listops",
        "rir2023: listops, trained on lra_train",
        "rir2023: logic",
    ]


def test_runs_without_a_part_stand_above_the_papers_number_without_it(
    runs: Path, write_splits: Write
) -> None:
    write_splits({"near_iid": 0.99}, model="rir_ebt_grc")
    folder = write_splits({"near_iid": 0.98}, model="rir_ebt_grc", fingerprint=B)
    config = json.loads((folder.parent / "config.json").read_text())
    config["model"]["encoder"] = {"s4d": False}
    (folder.parent / "config.json").write_text(json.dumps(config))
    result = json.loads((folder / "result.json").read_text()) | {"config": config}
    (folder / "result.json").write_text(json.dumps(result))
    text = render(collect(runs))
    assert "paper: RIR-EBT-GRC " in text and "0.9972" in text
    assert "paper: RIR-EBT-GRC (-S4D)" in text and "0.9978" in text


@pytest.mark.slow
def test_every_format_of_a_mixture(
    runs: Path, write: Write, write_splits: Write, fail: Write, printed: Path
) -> None:
    write()
    write_splits({"near_iid": 0.59})
    fail(task="sum", model="mine")
    broken = runs / "listops" / "bbt_grc" / "rir2023" / B / "s0"
    broken.mkdir(parents=True)
    failure = {"schema": 1, "error": "no memory", "type": "RuntimeError", "step": 3}
    (broken / "failure.json").write_text(json.dumps(failure))
    for format in FORMATS:
        text = render(collect(runs), format, printed).replace("\\_", "_")
        assert "bbt_grc" in text and "blockdiag" in text
        table = Request(table=load_table("rir2023_table2"))
        assert "bbt_grc" in render(collect(runs), format, request=table).replace("\\_", "_")


def test_runs_csv_has_a_row_for_each_split_with_its_best_baseline(
    runs: Path, write_splits: Write
) -> None:
    write_splits({"near_iid": 0.59, "args_10": 0.4})
    rows = list(csv.DictReader(io.StringIO(render(collect(runs), "csv"))))
    tests = [row for row in rows if row["kind"] == "test"]
    assert [(row["split"], row["which"], row["value"], row["n"]) for row in tests] == [
        ("near_iid", "best", "0.59", "10000"),
        ("args_10", "best", "0.4", "2000"),
        ("near_iid", "last", "0.54", "10000"),
        ("args_10", "last", "0.35", "2000"),
    ]
    assert {(row["chance"], row["chance_baseline"]) for row in tests} == {("0.4", "root_digits")}
    assert {row["guessing"] for row in rows} == {""}
    looks = [row for row in rows if row["kind"] == "look"]
    assert {(row["split"], row["metric"], row["chance"]) for row in looks} == {
        ("dev", "accuracy", ""),
        ("dev", "loss", ""),
    }


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"baseline": "uniform", "split": "dev", "value": 0.1}, None),
        ({"baseline": "uniform", "split": 3, "value": 0.1}, "'baselines[0].split' is 3"),
        ({"baseline": "uniform", "split": "dev"}, "'baselines[0].value' is missing"),
        ({"baseline": "uniform", "value": 0.1}, "'baselines[0].length' is missing"),
        ("uniform", "'baselines[0]' is 'uniform'"),
    ],
)
def test_a_baseline_is_of_a_length_or_of_a_split(row: Any, complaint: str | None) -> None:
    found = result_complaint(make_split_result({"near_iid": 0.5}, baselines=[row]))
    assert found is None if complaint is None else found and found.startswith(complaint)


@pytest.mark.parametrize(
    ("task", "split", "expected"),
    [
        ("listops", "len_200_300", 300),
        ("listops", "near_iid", None),
        ("logic", "test_12", 12),
        ("logic", "len_200_300", None),
        ("sum", "test_12", None),
    ],
)
def test_where_a_split_stands_in_a_figure(task: str, split: str, expected: int | None) -> None:
    assert position(task, split) == expected


def test_a_figure_against_the_length_of_splits(runs: Path, three: Write) -> None:
    three({"near_iid": 0.6, "len_200_300": 0.5, "len_900_1000": 0.3, "args_10": 0.4})
    [panel] = panels(collect(runs), "best")
    assert (panel.axis, panel.test_length) == ("longest string, in tokens", None)
    [curve] = panel.curves
    assert [length for length, _ in curve.mean] == [300.0, 1000.0]
    assert [value for _, value in curve.mean] == pytest.approx([0.5, 0.3])
    assert [value for _, value in panel.chance] == pytest.approx([0.4, 0.4])
    [drawing] = draw([panel], ("svg",))
    assert drawing.name == "figure_length_listops"
    assert drawing.caption.startswith("listops: accuracy against longest string, in tokens; ")


def test_no_figure_of_splits_that_do_not_differ_in_length(runs: Path, three: Write) -> None:
    three({"near_iid": 0.6, "args_10": 0.4})
    assert panels(collect(runs), "best") == []
