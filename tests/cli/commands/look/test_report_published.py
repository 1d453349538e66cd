"""`lrbench report` of a published table, and of runs of which none has ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.report.runs.archive import archive
from lrbench.report.runs.collect import collect
from tests.report.conftest import make_result, run_folder

Run = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A published table of three runs, and the runs beside it."""
    runs, folder = tmp_path / "outputs", tmp_path / "results" / "mine"
    for seed in range(3):
        result = make_result(seed=seed, accuracy=1 / (seed + 1))
        (run_folder(runs, result) / "result.json").write_text(json.dumps(result))
    folder.mkdir(parents=True)
    for name, content in archive(collect(runs), runs).items():
        (folder / name).write_bytes(content)
    return folder


def test_a_published_table_is_reported_as_its_runs(lrbench: Run, table: Path) -> None:
    for arguments in (
        ["--format", "csv"],
        ["--table", "fan2024_table2"],
        ["--rows", "blockdiag", "--format", "latex"],
    ):
        of_runs = lrbench("report", *arguments)
        for place in (table, table / "runs.csv"):
            ended = lrbench("report", "--runs", str(place), *arguments)
            assert (ended.code, ended.err) == (0, "")
            assert ended.out == of_runs.out
    assert of_runs.out.count("blockdiag") > 1


def test_ones_own_runs_beside_a_published_table(lrbench: Run, table: Path, tmp_path: Path) -> None:
    result = make_result(model="mine", fingerprint="b" * 12)
    (run_folder(tmp_path / "own", result) / "result.json").write_text(json.dumps(result))
    arguments = ["report", "--rows", "mine,blockdiag", "--runs", "own"]
    both = lrbench(*arguments, "--runs", str(table))
    assert (both.code, both.err) == (0, "")
    assert "| mine " in both.out
    assert "| blockdiag " in both.out
    nowhere = lrbench("report", "--runs", "own", "--runs", "nowhere")
    assert nowhere.code == 1
    assert "no folder of runs at 'nowhere'" in nowhere.err


def test_ones_own_runs_beside_a_table_that_came_with_lrbench(lrbench: Run, tmp_path: Path) -> None:
    own = make_result(model="mine", fingerprint="b" * 12)
    (run_folder(tmp_path / "own", own) / "result.json").write_text(json.dumps(own))
    alone = lrbench("report", "--published", "fan2024_table2", "--part", "main")
    assert (alone.code, alone.err) == (0, "")
    assert "| blockdiag, our recipe " in alone.out
    assert "| mine " not in alone.out
    both = lrbench("report", "--published", "fan2024_table2", "--runs", "own", "--part", "main")
    assert (both.code, both.err) == (0, "")
    rows = [line for line in both.out.splitlines() if line.startswith("| mine ")]
    assert len(rows) == 2  # by the paper's rule and on fresh strings
    without = [line for line in both.out.splitlines() if not line.startswith("| mine ")]
    assert [line for line in alone.out.splitlines() if line.startswith("| s4d ")] == [
        line for line in without if line.startswith("| s4d ")
    ]
    unknown = lrbench("report", "--published", "fan2024_tabel2")
    assert unknown.code == 2
    assert "Did you mean 'fan2024_table2'?" in unknown.err


def test_its_figures_are_the_same(lrbench: Run, table: Path, tmp_path: Path) -> None:
    assert lrbench("report", "--figures", "first").code == 0
    assert lrbench("report", "--runs", str(table), "--figures", "second").code == 0
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert "figure_length_sum_mod_5.svg" in names or "figure_length_sum.svg" in names
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_the_csv_file_alone(lrbench: Run, table: Path) -> None:
    (table / "settings.json").unlink()
    ended = lrbench("report", "--runs", str(table / "runs.csv"))
    assert (ended.code, ended.out) == (1, "")
    assert f"no settings.json beside '{table / 'runs.csv'}'" in ended.err
    assert "fix:" in ended.err and "Traceback" not in ended.err
    assert len(ended.err.splitlines()) <= 6


def test_runs_under_way_are_not_nothing(lrbench: Run, tmp_path: Path) -> None:
    config = {"task": {"name": "sum"}, "model": {"name": "s4d"}, "protocol": {"name": "fan2024"}}
    folder = tmp_path / "outputs" / "sum" / "s4d" / "fan2024" / ("a" * 12) / "s0"
    folder.mkdir(parents=True)
    (folder.parent / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text('{"step": 4100, "loss": 1.0}\n{"step": 42')
    (tmp_path / "mine.yaml").write_text("cells: [{overrides: [task=sum, model=s4d, trials=3]}]")
    ended = lrbench("report", "--table", "mine.yaml")
    assert (ended.code, ended.err) == (0, "")
    assert "| unfinished" in ended.out
    assert "sum x s4d seed 0: unfinished, 4,100 updates; goes on with: lrbench train" in ended.out
    own = lrbench("report", "--rows", "s4d")
    assert "goes on with: lrbench train task=sum model=s4d seed=0" in own.out
    assert "No finished run yet" in lrbench("report").out
    assert ",unfinished," in lrbench("report", "--format", "csv").out
