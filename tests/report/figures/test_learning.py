"""Every look of a run: rows of runs.csv, learning curves, and nothing that a table counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lrbench.report.figures.draw import drawings
from lrbench.report.figures.learning import learning_panels
from lrbench.report.output.render import render
from lrbench.report.runs.archive import read_archive
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request
from tests.report.runs.test_archive import published
from tests.report.runs.test_under_way import going, over_corpus

Write = Callable[..., Path]


def look(step: int, accuracy: Any, **more: Any) -> dict[str, Any]:
    reported = {"step": step, "test_length": 500, "test_accuracy": accuracy, "test_n": 128}
    return {"step": step, "look": {**reported, **more}}


def log(folder: Path, *lines: Any) -> Path:
    path = folder / "metrics.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_a_row_a_look(runs: Path, write: Write) -> None:
    log(write(seed=3), {"step": 100, "loss": 1.0}, look(1000, 0.25), look(2000, 0.5))
    found = collect(runs)
    rows = found.every_row.query("which == 'every'")
    assert list(rows["checkpoint_step"]) == [1000, 2000]
    assert list(rows["value"]) == [0.25, 0.5]
    reported = ["length", "split", "metric", "n", "kind", "seed", "status"]
    assert set(rows[reported].itertuples(index=False, name=None)) == {
        (500, "test", "accuracy", 128, "look", 3, "finished")
    }
    assert "every" not in set(found.frame["which"])


def test_no_table_changes_by_looks(runs: Path, write: Write) -> None:
    folder = write(seed=0)
    before = render(collect(runs))
    log(folder, look(1000, 0.0), look(2000, 0.0))
    assert render(collect(runs)) == before


def test_of_two_looks_at_one_update_the_later_counts(runs: Path, write: Write) -> None:
    path = log(write(), look(1000, 0.1), look(2000, 0.2), look(2000, 0.3))
    path.write_text(path.read_text() + '{"step": 3000, "look": {"st')
    [panel] = learning_panels(collect(runs))
    [curve] = panel.curves
    assert [trial.by_length for trial in curve.trials] == [((1000.0, 0.1), (2000.0, 0.3))]


@pytest.mark.parametrize("value", [None, "0.5", True, float("nan")])
def test_a_look_that_saw_no_number_is_no_point(runs: Path, write: Write, value: Any) -> None:
    log(write(), look(1000, value), look(2000, 0.5), look(3000, 0.75))
    [panel] = learning_panels(collect(runs))
    assert panel.curves[0].mean == ((2000.0, 0.5), (3000.0, 0.75))


def test_an_error_has_no_learning_curve(runs: Path, write: Write) -> None:
    lines = [look(step, None, test_nrmse=0.5) for step in (1000, 2000)]
    log(write(), *lines)
    found = collect(runs)
    assert list(found.every_row.query("which == 'every'")["metric"]) == ["nrmse"] * 2
    assert learning_panels(found) == []


def test_finished_and_unfinished_runs_beside_each_other(runs: Path, write: Write) -> None:
    log(write(seed=0), look(400, 1.0), look(800, 1.0))
    going(runs, seed=1, lines=(look(400, 0.5), look(800, 0.0), {"step": 900}))
    [panel] = learning_panels(collect(runs))
    assert (panel.title, panel.slug, panel.rule) == ("sum (mod 5)", "sum", "at 500")
    [curve] = panel.curves
    assert (curve.label, curve.runs) == ("blockdiag", 2)
    assert curve.mean == ((400.0, 0.75), (800.0, 0.5))


def test_configurations_are_distinguished(runs: Path, write: Write) -> None:
    for fingerprint, lr in (("a" * 12, 1e-3), ("b" * 12, 1e-4)):
        log(write(fingerprint=fingerprint, lr=lr), look(1000, 0.5), look(2000, 0.5))
    [panel] = learning_panels(collect(runs))
    assert [curve.label for curve in panel.curves] == ["blockdiag lr=0.001", "blockdiag lr=0.0001"]


def test_looks_at_the_dev_split_of_a_corpus(runs: Path) -> None:
    folder = over_corpus(runs)
    text = (folder / "metrics.jsonl").read_text()
    seen = {"step": 600, "validation_accuracy": 0.75, "validation_loss": 0.5}
    more = {"step": 600, "look": {**seen, "validation_n": 1000}}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(more)}\n{text}")
    [panel] = learning_panels(collect(runs))
    assert panel.rule == "on dev"
    assert panel.curves[0].mean == ((300.0, 0.691), (600.0, 0.75))


@pytest.mark.slow
def test_a_published_table_keeps_them(tmp_path: Path, runs: Path, write: Write) -> None:
    log(write(seed=0), look(1000, 0.1 + 0.2), look(1500, 0.5), look(2000, 1))
    going(runs, seed=1, lines=(look(400, 0.5), look(800, 0.0)))
    first = collect(runs)
    second = read_archive(published(first, tmp_path / "published"))
    read = [{folder: looks([]) for folder, looks in one.looks.items()} for one in (first, second)]
    assert read[0] == read[1] and read[0]
    assert render(first, "html") == render(second, "html")
    pd.testing.assert_frame_equal(first.every_row, second.every_row)


@pytest.mark.slow
def test_the_figure(runs: Path, write: Write) -> None:
    folder = write(seed=0)
    names = [one.name for one in drawings(collect(runs), Request())]
    assert not [name for name in names if "learning" in name]
    log(folder, look(1000, 0.25))
    assert [one.name for one in drawings(collect(runs), Request())] == names  # no curve of one look
    log(folder, look(1000, 0.25), look(2000, 0.5))
    *others, last = drawings(collect(runs), Request())
    assert [one.name for one in others] == names
    assert last.name == "figure_learning_sum"
    assert last.caption.startswith("sum (mod 5): accuracy at 500 at each look; ")
    assert [one.files for one in drawings(collect(runs), Request())][-1] == last.files
