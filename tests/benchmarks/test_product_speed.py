"""What is timed is the same model with the same strings, multiplied by one and by the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import product_speed
from lrbench.bench.timing import Rounds
from lrbench.kernels import choice
from lrbench.kernels.choice import Means
from tests.bundles.conftest import TINY


def test_each_side_multiplies_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def arithmetic_of(trial: object) -> product_speed.Call:
        return lambda: seen.append(choice.installed(Means.ONEDNN))

    monkeypatch.setattr(product_speed, "arithmetic_of", arithmetic_of)
    before = choice.installed
    for call in product_speed.sides(TINY).values():
        call()
    assert seen == [False, True]
    assert choice.installed is before


def test_the_ratio_is_that_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Rounds({"torch": [4.0, 8.0], "oneDNN": [2.0, 2.0]})
    monkeypatch.setattr(product_speed, "sides", lambda *_: {})
    monkeypatch.setattr(product_speed, "SIZES", ((4, 8, 16),))
    monkeypatch.setattr(product_speed, "alternate", lambda *_: measured)
    monkeypatch.setattr(product_speed, "RESULTS", tmp_path)
    product_speed.main(["--models", "blockdiag", "--write"])
    assert "oneDNN 2000.000 ms, ratio 3.00 (2.00..4.00)" in capsys.readouterr().out
    written = json.loads((tmp_path / "product_speed.json").read_text())
    assert written["seconds"]["blockdiag"]["torch"] == [4.0, 8.0]
    assert list(written["products"]) == ["4x8x16"]


def test_both_multiply_the_same() -> None:
    by_torch, by_onednn = (call() for call in product_speed.alone(4, 8, 16).values())
    torch.testing.assert_close(by_onednn, by_torch)
