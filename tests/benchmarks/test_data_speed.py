from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import data_speed
from lrbench.bench.timing import Rounds


@pytest.mark.parametrize("name", ["group S3", "mod_arith_ltr"])
def test_sides_draw_and_train(name: str) -> None:
    for call in data_speed.sides(name).values():
        call()


def test_the_share_is_that_of_one_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twelve updates drawn in 0.024 s are 0.002 s each, a tenth of an update of 0.02 s."""
    measured = Rounds({"draw": [0.024, 0.024], "update": [0.02, 0.02]})
    monkeypatch.setattr(data_speed, "sides", lambda name: {})
    monkeypatch.setattr(data_speed, "alternate", lambda *_: measured)
    monkeypatch.setattr(data_speed, "RESULTS", tmp_path)
    data_speed.main(["--write"])
    assert "group S3: 2.000 ms an update, 10.0% of an LSTM's 20.0 ms" in capsys.readouterr().out
    written = json.loads((tmp_path / "data_speed.json").read_text())
    assert written["tasks"]["group S3"]["draw"] == [0.024, 0.024]
