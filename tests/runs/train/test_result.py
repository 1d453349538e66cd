"""result.json of a run over a corpus says which data it was: those whose hashes split.json has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.report.runs.schema import result_complaint
from lrbench.runs.train.job import run_cell
from lrbench.tasks.corpus.storage import describe
from tests import made_up_corpora


def test_the_data_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up_corpora.write(tmp_path / "data")
    monkeypatch.setenv("LRBENCH_DATA", str(data))
    arguments = ["task=logic", "model=bbt_grc", "model.width=8", "protocol.max_steps=2"]
    [outcome] = run_cell(composed([*arguments, "protocol.test_splits=[test_9]", "device=cpu"]))
    assert outcome.status == "finished" and outcome.result is not None
    assert result_complaint(json.loads(json.dumps(outcome.result))) is None
    reported = outcome.result["data"]
    assert list(reported) == ["train", "dev", "test_9"]
    for split, entry in reported.items():
        there = describe(data / "logic_released" / split)
        assert (entry["n"], entry["sha256"], entry["made"]) == (
            there["n"],
            there["sha256"],
            there["made"],
        )
