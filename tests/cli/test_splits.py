"""A run over a corpus from training to its tables, and a sweep over a paper's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import made_up_corpora

Run = Callable[..., Any]
TINY = [
    *("task=listops", "model=bbt_grc", "model.width=8", "protocol.max_steps=2", "device=cpu"),
    *("protocol.batch_size=8", "protocol.test_splits=[near_iid,args_10]", "output_dir=runs"),
]


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with made-up corpora where the data belong."""
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))
    monkeypatch.chdir(tmp_path)


def test_from_training_to_tables(lrbench: Run, tmp_path: Path) -> None:
    trained = lrbench("train", *TINY)
    assert trained.code == 0, trained.err
    assert "its budget of 2 updates was used up" in trained.out
    assert "ended         after 0.667 epochs" in trained.out
    [folder] = tmp_path.glob("runs/listops/bbt_grc/rir2023/*/s0")
    assert f"lrbench evaluate {folder.relative_to(tmp_path)} --splits args_15" in trained.out
    result = json.loads((folder / "result.json").read_text())
    reported = {
        row["split"]: row["value"]
        for row in result["evaluations"]
        if (row["kind"], row["which"]) == ("test", "best")
    }
    assert set(reported) == {"near_iid", "args_10"}

    evaluated = lrbench("evaluate", str(folder), "--splits", "args_10,lra_test")
    assert evaluated.code == 0, evaluated.err
    assert "baseline: the best of those" in evaluated.out
    [written] = (folder / "evaluations").iterdir()
    rows = json.loads(written.read_text())["evaluations"]
    assert [(row["split"], row["n"], row["kind"]) for row in rows] == [
        ("args_10", 24, "test"),
        ("lra_test", 24, "test"),
    ]
    assert rows[0]["value"] == reported["args_10"]
    assert rows[0]["interval"][0] <= rows[0]["value"] <= rows[0]["interval"][1]

    planned = lrbench("sweep", *TINY, "seed=0,1", "--dry-run")
    assert planned.code == 0 and "2 runs: 1 finished, 1 to do" in planned.out

    report = lrbench("report", "--runs", "runs")
    assert report.code == 0 and f"{reported['near_iid']:.4f}" in report.out
    table = lrbench("report", "--runs", "runs", "--table", "rir2023_table2")
    assert table.code == 0 and f"{reported['args_10']:.4f}" in table.out and "0.4535" in table.out
    chosen = lrbench("report", "--runs", "runs", "--columns", "args_10")
    assert chosen.code == 0 and "near_iid" not in chosen.out
    without = lrbench("report", "--runs", "runs", "--figures", "figures")
    assert without.code == 1 and "no figure to draw" in without.err

    for arguments, reason in (
        (["--lengths", "500"], "listops is scored on whole splits"),
        (["--strings", "5"], "--strings does not go with a run over a corpus"),
        (["--splits", "nope"], "split 'nope' unknown"),
        (["--which", "band"], "known: best, last"),
    ):
        refused = lrbench("evaluate", str(folder), *arguments)
        assert refused.code != 0 and reason in refused.err
    assert len(list((folder / "evaluations").iterdir())) == 1


@pytest.mark.parametrize(
    ("table", "cells"),
    [
        ("rir2023_table2", 16),
        ("rir2023_table3", 12),
        ("rir2023_table4", 20),
        ("rir2023_table5", 11),
    ],
)
def test_a_papers_table_can_be_planned(lrbench: Run, table: str, cells: int) -> None:
    ended = lrbench("sweep", "--table", table, "--dry-run")
    assert ended.code == 0, ended.err
    assert f"{3 * cells} runs: 0 finished, {3 * cells} to do" in ended.out


def test_cells_without_data_are_left_out_of_a_table(lrbench: Run, tmp_path: Path) -> None:
    for name in ("lra_text", "lra_retrieval"):
        (tmp_path / "data" / name).rename(tmp_path / name)
    ended = lrbench("sweep", "--table", "rir2023_table4", "--dry-run")
    assert ended.code == 0 and "30 runs: 0 finished, 30 to do" in ended.out
    assert "left out: the cells of task lra_text: lra_text: no data at hand" in ended.err
    assert "lrbench data fetch lra_retrieval" in ended.err and "Traceback" not in ended.err
    alone = lrbench("sweep", "--table", "rir2023_table4", "task=lra_text", "--dry-run")
    assert alone.code == 1 and alone.err.startswith("lrbench: lra_text: no data at hand")
    typed = lrbench("sweep", "task=listops,lra_text", "model=bbt_grc", "--dry-run")
    assert typed.code == 1 and "lra_text: no data at hand" in typed.err
    (tmp_path / "lra_text").rename(tmp_path / "data" / "lra_text")
    assert "45 runs" in lrbench("sweep", "--table", "rir2023_table4", "--dry-run").out


def test_a_table_without_a_model_of_ours(lrbench: Run, tmp_path: Path) -> None:
    header = "title: Others\nsource: arXiv:2311.04449, Table 5\nprotocol: rir2023\n"
    Path("others.yaml").write_text(f"{header}columns: [near_iid]\ncells: []\n")
    ended = lrbench("sweep", "--table", "others.yaml", "--dry-run")
    assert ended.code == 1 and "has no cell" in ended.err
    (tmp_path / "outputs").mkdir()
    shown = lrbench("report", "--table", "others.yaml")
    assert shown.code == 0 and "RIR-CRvNN" in shown.out
