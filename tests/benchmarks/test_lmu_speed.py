"""Sides of the comparison are the same models, alternate, and the ratio is the right way round."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import lmu_speed
from lrbench.bench.timing import Rounds
from lrbench.errors import UserError

SEQUENCE = replace(
    lmu_speed.NETWORKS["mackey_glass"],
    length=9, order=5, theta=7, outputs=6, hidden=4, lmu_order=5, lmu_units=6, batch=2,
)  # fmt: skip
LABEL = replace(
    lmu_speed.NETWORKS["psmnist"],
    length=9, order=5, theta=7, outputs=6, lmu_order=5, lmu_units=6, batch=2,
)  # fmt: skip


@pytest.mark.parametrize("network", [SEQUENCE, LABEL], ids=["sequence", "label"])
def test_sides_of_one_model_take_the_same_training_steps(network: lmu_speed.Network) -> None:
    losses = {}
    for side in network.sides:
        update = lmu_speed.training_step(network, side)
        losses[side] = [update() for _ in range(4)]
    for side in network.sides:
        same_model = "lmu_loop" if side in lmu_speed.ORIGINAL else "lti"
        assert losses[side] == pytest.approx(losses[same_model], rel=1e-4)
    assert losses["lmu"] != pytest.approx(losses["lti"], rel=1e-3)
    assert losses["lti"][0] != pytest.approx(losses["lti"][3], rel=1e-4)


def test_original_of_the_comparison_has_as_many_parameters() -> None:
    network = lmu_speed.NETWORKS["mackey_glass"]
    counts = []
    for side in ("lmu", "fft"):
        mixer, _ = lmu_speed._mixer(network, side)
        hidden = 0 if side == "lmu" else network.hidden
        head = lmu_speed._head(mixer.out_width, hidden, network.classes)
        counts.append(sum(p.numel() for module in (mixer, head) for p in module.parameters()))
    assert counts == [17_136, 17_243]


def test_ratio_is_the_original_over_the_side() -> None:
    measured = Rounds({"lmu_loop": [8.0, 6.0, 9.0], "lmu": [4.0, 3.0, 5.0], "fft": [2.0, 1.0, 1.0]})
    row = lmu_speed.summary(SEQUENCE, measured)[-1]
    assert (row["times_lmu"], row["times_lmu_range"], row["times_lmu_loop"]) == (3, [2, 5], 6)
    assert (row["paper"], row["seconds"]) == (64, 1)


def test_fewer_than_three_rounds_are_refused() -> None:
    with pytest.raises(UserError, match="at least 3"):
        lmu_speed.main(["--rounds", "2"])


@pytest.mark.parametrize("write", [False, True])
def test_raw_numbers_are_written_on_request(
    write: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lmu_speed, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(lmu_speed, "NETWORKS", {"psmnist": LABEL, "mackey_glass": SEQUENCE})
    arguments = ["--seconds", "0", "--lengths", "3", "40"]
    lmu_speed.main([*arguments, "--write"] if write else arguments)
    reported = capsys.readouterr().out
    assert "psmnist: n=9, batch 2" in reported and "   220\n" in reported and "    64\n" in reported
    assert (tmp_path / "results").exists() is write
    if write:
        report = json.loads((tmp_path / "results" / "lmu_speed.json").read_text())
        assert len(report["networks"]["psmnist"]["rounds"]["final"]) == 3
        with (tmp_path / "results" / "lmu_speed_length.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {(row["side"], row["length"]) for row in rows} >= {("final", "3"), ("lti", "40")}
