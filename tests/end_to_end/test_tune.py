"""A tuning run as a program: trains the grid, chooses, writes; again it trains nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import lrbench

TINY = [
    *("model.width=8", "model.mixer.block_size=4"),
    *("protocol.train_length=6", "protocol.test_lengths=[9]", "protocol.further_lengths=[12]"),
    *("protocol.band=[7,8]", "protocol.batch_size=8", "protocol.look_every=4"),
    *("protocol.look_size=8", "protocol.validation_size=16", "protocol.test_size=20"),
    *("protocol.max_steps=10", "device=cpu"),
]
PRESET = Path("outputs/tuned/preset/model/fan2024_parity_blockdiag_release.yaml")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_a_search_its_rerun_and_a_run_with_the_winner() -> None:
    cell = ["task=parity", "model=blockdiag_release"]
    grid = ["seed=0,1", *TINY, "--grid", "optim.lr=1e-9,3e-2", "--grid", "optim.name=adam"]
    first = lrbench("tune", *cell, *grid)
    assert first.returncode == 0, first.stderr
    results = {path: path.stat().st_mtime_ns for path in Path("outputs").rglob("result.json")}
    assert len(results) == 4
    assert first.stderr.count("validation 0.") + first.stderr.count("validation 1.") == 4
    assert " at 9" not in first.stderr
    contents = [json.loads(path.read_text()) for path in results]
    assert [each["steps"] for each in contents] == [10] * 4
    assert [each["config"]["tuning_runs"] for each in contents] == [4] * 4
    chosen = next(line for line in first.stdout.splitlines() if line.rstrip().endswith("chosen"))
    assert f"* optim.lr={chosen.split()[0]} optim.name=adam" in PRESET.read_text()

    again = lrbench("tune", *cell, *grid)
    assert again.returncode == 0, again.stderr
    assert "4 of 4 runs are finished" in again.stderr
    assert "unchanged: outputs/tuned" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in results} == results

    tuned = lrbench("train", *cell, *TINY, "--config-dir", "outputs/tuned", "output_dir=final")
    assert tuned.returncode == 0, tuned.stderr
    [new] = Path("final").rglob("result.json")
    config = json.loads(new.read_text())["config"]
    assert (config["tuning_runs"], config["optim"]["lr"]) == (4, float(chosen.split()[0]))
    markdown = lrbench("report", "--runs", "final", "--rows", "blockdiag_release").stdout
    cost = [line.split("|") for line in markdown.partition("Cost")[2].splitlines() if "|" in line]
    column = [title.strip() for title in cost[0]].index("tuning")
    assert cost[2][column].strip() == "4"
