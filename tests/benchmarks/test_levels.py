"""Published baselines and guessing are today's, and what is not is found and written anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import levels

ROOT = Path(__file__).resolve().parents[2]
RUN = "results/fan2024_column/records/sum/blockdiag/fan2024/bf8e188b83ae/s0"


def test_published_records_are_as_todays_code_makes_them() -> None:
    for table in ("fan2024_column", "fixed_point", "functions"):
        assert list(levels.changed(ROOT / "results" / table)) == []


def test_chance_of_trees_is_not_that_of_answers() -> None:
    run = next(ROOT.glob("results/rir2023_table2/records/listops/ebt_grc/rir2023/*/s0/result.json"))
    rows = [
        row
        for path in (run.parent / "evaluations").glob("*.json")
        for row in json.loads(path.read_text())["evaluations"]
        if row.get("kind") == "trees"
    ]
    found = levels.Levels(json.loads(run.read_text()))
    assert rows and found.evaluated_anew({"evaluations": rows}) == {"evaluations": rows}


def test_an_old_level_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "table" / "records" / "s0"
    shutil.copytree(ROOT / RUN, folder)
    path = folder / "result.json"
    right = path.read_text()
    result: dict[str, Any] = json.loads(right)
    for row in result["baselines"]:
        row |= {"value": row["value"] + 0.003, "n": 10_000}
    result["guessing"][0]["value"] += 1e-4
    path.write_text(json.dumps(result))
    monkeypatch.setattr("sys.argv", ["levels", str(tmp_path / "table"), "--check"])
    assert levels.main() == 1 and json.loads(path.read_text()) == result
    monkeypatch.setattr("sys.argv", ["levels", str(tmp_path / "table")])
    assert levels.main() == 0
    assert json.loads(path.read_text()) == json.loads(right)
