"""`lrbench sweep` of a table with a search: every cell is tuned first, then trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TABLE = """\
title: two tasks
kind: suite
protocol: suite_v1
rule: last
common: [protocol=suite_v1, trials=2, model.width=8, protocol.max_steps=40, protocol.look_every=20,
  protocol.look.strings=16, protocol.validation_size=64, "protocol.test.lengths=[6]",
  protocol.test.strings=20, protocol.certify=never]
search: {grid: ["optim.lr=1e-8,0.01"], settings: [seed=1000, trials=1, protocol.max_steps=20]}
tasks:
  - {overrides: [task=parity], label: parity}
  - {overrides: [task=even_pair, task.modulus=2], label: even_pair}
models:
  - {overrides: [model=lstm]}
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(TABLE)
    return str(path)


def results(folder: str = "outputs") -> list[dict]:
    return [json.loads(path.read_text()) for path in Path(folder).rglob("result.json")]


def test_each_cell_is_trained_with_what_its_search_chose(lrbench, table: str) -> None:
    ended = lrbench("sweep", "--table", table, "task=parity")
    assert ended.code == 0, ended.err
    tried = [one for one in results() if one["seed"] == 1000]
    trained = [one for one in results() if one["seed"] != 1000]
    assert sorted(one["config"]["optim"]["lr"] for one in tried) == [1e-8, 0.01]
    assert {one["steps"] for one in tried} == {20}
    assert sorted((one["task"], one["seed"]) for one in trained) == [("parity", 0), ("parity", 1)]
    for one in trained:
        assert one["steps"] == 40
        losses = {
            run["config"]["optim"]["lr"]: min(
                row["value"]
                for row in run["evaluations"]
                if row["metric"] == "loss" and row["which"] == "id"
            )
            for run in tried
            if run["task"] == one["task"]
        }
        assert one["config"]["optim"]["lr"] == min(losses, key=losses.__getitem__)
        assert one["config"]["tuning_runs"] == 2
    again = lrbench("sweep", "--table", table, "task=parity")
    assert again.code == 0
    assert "skipped: 2 of 2 runs are finished" in again.err
    assert len(results()) == 4


def test_any_model_can_be_a_row_and_a_typed_rate_ends_the_search(lrbench, table: str) -> None:
    ended = lrbench("sweep", "--table", table, "model=rnn", "task=parity", "optim.lr=0.002")
    assert ended.code == 0, ended.err
    assert "no search, as optim.lr=0.002 is given" in ended.err
    assert {(one["model"], one["seed"]) for one in results()} == {("rnn", 0), ("rnn", 1)}


def test_a_dry_run_tells_the_search_first(lrbench, table: str) -> None:
    ended = lrbench("sweep", "--table", table, "--dry-run")
    assert ended.code == 0, ended.err
    assert "first the search, 4 runs; then 2 cells" in ended.err
    assert "4 runs: 0 finished, 4 to do" in ended.out
    assert not Path("outputs").exists()


def test_a_search_that_failed_leaves_its_cell_out(lrbench, table: str, monkeypatch) -> None:
    from lrbench.cli.hydra import searching

    monkeypatch.setattr(searching.TableSearch, "choice", lambda *_: None)
    ended = lrbench("sweep", "--table", table, "task=parity")
    assert ended.code == 1
    assert "not tuned, so not trained: " in ended.err
    assert {one["seed"] for one in results()} == {1000}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("search: {grid", "search: {grids", "'search' has 'grid'"),
        ("tasks:", "columns: []\ntask:", "has no list 'tasks' and 'models'"),
        ("[model=lstm]", "[model.width=3]", "a cell without model="),
        ("title:", "cells: []\ntitle:", "cells"),
    ],
)
def test_a_damaged_table_is_refused(lrbench, table: str, old: str, new: str, said: str) -> None:
    path = Path(table)
    path.write_text(path.read_text().replace(old, new, 1))
    ended = lrbench("sweep", "--table", table, "--dry-run")
    assert ended.code == 1
    assert said in ended.err
