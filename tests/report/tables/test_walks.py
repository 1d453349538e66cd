"""Numbers of walks, of made-up runs whose differences can be worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.figures.draw import drawings
from lrbench.report.figures.walk_chart import walk_figure
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request, tables_of
from lrbench.report.tables.walks import walk_tables, walked
from lrbench.tables import TableSpec, load_table
from tests.report.conftest import evaluation, make_result

WALK = """
kind: walks
protocol: walks
title: Two papers
common: [protocol=walks]
walks:
  - label: A to B
    start: [task=sum, model=blockdiag, model.layers=3, optim.lr=0.1]
    reading: {rule: last, of: test, over: max, scale: scaled}
    steps:
      - {label: raw, factor: arithmetic, reading: {scale: raw}}
      - {label: mean, factor: arithmetic, reading: {over: mean}}
      - {label: two layers, factor: model, overrides: [model.layers=2]}
      - {label: slow, factor: training, overrides: [optim.lr=0.01]}
    claims: [{value: 0.95, source: Paper A}, {value: 0.30, source: Paper B}]
"""
CHANCE = 0.204  # the best baseline of made-up runs
RUNS: Mapping[tuple[int, float], Sequence[float]] = {  # (layers, rate): accuracies of seeds
    (3, 0.1): (0.90, 0.80, 0.70),
    (2, 0.1): (0.80, 0.80, 0.80),
    (2, 0.01): (0.30, 0.30, 0.36),
    (3, 0.01): (0.40, 0.40, 0.40),  # the end without "two layers"
}
Write = Callable[[dict[str, Any]], Path]


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    path = tmp_path / "mine.yaml"
    path.write_text(WALK)
    return load_table(str(path))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for at, ((layers, rate), accuracies) in enumerate(RUNS.items()):
        for seed, accuracy in enumerate(accuracies):
            write(tmp_path / "runs", layers, rate, seed, accuracy, f"{at:x}" * 12)
    return tmp_path / "runs"


def write(runs: Path, layers: int, rate: float, seed: int, accuracy: float, name: str) -> None:
    result = make_result(seed=seed, fingerprint=name, protocol="walks", lr=rate)
    result["config"]["model"]["layers"] = layers
    result["config"]["protocol"] = {"name": "walks"}
    result["evaluations"] = [evaluation(500, "test", accuracy, "last")]
    folder = runs / "sum" / "blockdiag" / "walks" / name / f"s{seed}"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))


def row(table: Table, step: str) -> dict[str, str]:
    titles = [column.title for column in table.columns]
    (cells,) = [cells for cells in table.rows if cells[0].text == step]
    return {title: cell.text for title, cell in zip(titles, cells, strict=True)}


def test_each_station_is_read_as_it_says(runs: Path, spec: TableSpec) -> None:
    (one,) = walked(collect(runs), spec)
    values = [stand.value for stand in one.stands]
    wanted = [(0.9 - CHANCE) / (1 - CHANCE), 0.9, 0.8, 0.8, 0.32]
    assert values == pytest.approx(wanted)
    assert one.gap.value == pytest.approx(wanted[0] - 0.32)


def test_a_factor_is_the_reason_where_it_alone_gives_half_of_the_gap_back(
    runs: Path, spec: TableSpec
) -> None:
    steps, factors = walk_tables(collect(runs), spec)
    slow, layers = row(steps, "slow"), row(steps, "two layers")
    assert slow["value"].startswith("0.320 [0.300, ")
    assert slow["change"].startswith("0.480 [")
    assert slow["alone"].startswith("0.480 [") and slow["alone"].endswith("] reason")
    assert layers["change"].startswith("0.000 [")  # 0.8 before and after it
    assert layers["alone"].startswith("0.080 [") and layers["alone"].endswith("]")
    assert row(steps, "mean")["alone"].startswith("0.040 [")  # the best of three, not their mean
    gap = (0.9 - CHANCE) / (1 - CHANCE) - 0.32
    said = row(factors, "A to B")
    assert (said["printed gap"], said["our gap"]) == ("0.650", f"{gap:.3f}")
    assert said["unexplained"] == f"{0.65 - gap:.3f}"
    parts = [float(said[name]) for name in ("arithmetic", "model", "training")]
    assert sum(parts) == pytest.approx(gap, abs=0.002)


def test_there_is_no_reason_for_a_gap_to_the_other_side(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    swapped = WALK.replace("0.95", "0.1")  # printed as if the second paper had more
    other.write_text(swapped)
    steps, factors = walk_tables(collect(runs), load_table(str(other)))
    assert row(factors, "A to B")["printed gap"] == "-0.200"
    assert not any(cell.text.endswith("reason") for cells in steps.rows for cell in cells)


def test_two_readings_of_the_same_runs_are_resampled_together(runs: Path, spec: TableSpec) -> None:
    """Raw minus scaled is a function of one number: its interval is that of this number."""
    (one,) = walked(collect(runs), spec)
    raw = one.steps[0]
    low, high = raw.change.interval or (0.0, 0.0)
    assert low == pytest.approx((0.7 - CHANCE) / (1 - CHANCE) - 0.7)
    assert high == pytest.approx((0.9 - CHANCE) / (1 - CHANCE) - 0.9)


def test_a_setting_that_no_file_names_is_at_its_default(runs: Path, tmp_path: Path) -> None:
    """`protocol.precision` came later than the format: files of float32 runs do not have it."""
    path = tmp_path / "more.yaml"
    path.write_text(WALK.replace("optim.lr=0.1]", "optim.lr=0.1, protocol.precision=float32]"))
    (same,) = walked(collect(runs), load_table(str(path)))
    assert [len(stand.accuracies) for stand in same.stands] == [3] * 5
    path.write_text(WALK.replace("optim.lr=0.1]", "optim.lr=0.1, protocol.precision=bfloat16]"))
    (other,) = walked(collect(runs), load_table(str(path)))
    assert [len(stand.accuracies) for stand in other.stands] == [0] * 5


def test_runs_that_diverged_are_in_no_value_and_named(runs: Path, spec: TableSpec) -> None:
    for seed in (1, 2):
        path = runs / "sum/blockdiag/walks" / ("2" * 12) / f"s{seed}" / "result.json"
        result = json.loads(path.read_text()) | {"status": "diverged", "evaluations": []}
        path.write_text(json.dumps(result))
    steps, factors = walk_tables(collect(runs), spec)
    assert (row(steps, "slow")["runs"], row(steps, "slow")["value"]) == ("1", "0.300")
    named = [note for note in factors.notes if note.startswith("diverged: ")]
    assert [note.partition(" at ")[0][-2:] for note in named] == ["s1", "s2"]


def test_configurations_that_compete_are_named(runs: Path, spec: TableSpec) -> None:
    """It is not that no run has ended: training again would change nothing."""
    write(runs, 2, 0.01, 0, 0.5, "f" * 12)
    steps, factors = walk_tables(collect(runs), spec)
    assert row(steps, "slow")["value"] == "-"
    assert "several configurations compete, and none is shown, of: slow" in steps.notes
    assert any(note.endswith("choose one with --fingerprint") for note in factors.notes)
    steps, factors = walk_tables(collect(runs), spec, choose=["f" * 12])
    assert row(steps, "slow")["value"] == "0.500"
    assert any(note.endswith(f"{'f' * 12} is shown, not {'2' * 12}") for note in factors.notes)


def test_a_rule_chooses_nothing(runs: Path, spec: TableSpec) -> None:
    """Each station is read by its own: asked for another, the table was the same."""
    with pytest.raises(UserError, match="--rule chooses nothing in mine"):
        tables_of(collect(runs), Request(spec, rule="best"))
    assert len(tables_of(collect(runs), Request(spec))) == 2


def test_a_station_without_runs_is_named(runs: Path, spec: TableSpec) -> None:
    for path in (runs / "sum/blockdiag/walks" / ("2" * 12)).glob("*/result.json"):
        path.unlink()
    steps, factors = walk_tables(collect(runs), spec)
    assert row(steps, "slow")["value"] == row(steps, "slow")["change"] == "-"
    assert "no run has a number of: slow" in steps.notes
    assert row(factors, "A to B")["our gap"] == row(factors, "A to B")["training"] == "-"


def test_the_picture_has_a_row_a_station(runs: Path, spec: TableSpec) -> None:
    pytest.importorskip("matplotlib")
    (drawn,) = drawings(collect(runs), Request(table=spec))
    assert drawn.name == "figure_walks" and drawn.files["svg"].startswith(b"<?xml")


def test_the_picture_has_room_for_a_run_below_chance(runs: Path, spec: TableSpec) -> None:
    """Of a scaled number 0 is chance: a run below it is a dot left of 0."""
    pytest.importorskip("matplotlib")
    write(runs, 3, 0.1, seed=3, accuracy=0.1, name="0" * 12)
    (axes,) = walk_figure(walked(collect(runs), spec)).axes
    assert axes.get_xlim()[0] < (0.1 - CHANCE) / (1 - CHANCE)
