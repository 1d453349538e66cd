"""Walks between protocols: where each step leads, the end without it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.tables import TableSpec, load_table

WALK = """
kind: walks
protocol: walks
common: [protocol=walks]
walks:
  - label: two
    start: [task=mod_arith, model=blockdiag, model.layers=3, model.mixer.g=mlp]
    reading: {rule: best, of: look, over: max}
    steps:
      - {label: mean, factor: arithmetic, reading: {over: mean}}
      - {label: two layers, factor: model, overrides: [model.layers=2]}
      - {label: other, factor: model, overrides: [model=slice, model.mixer.block_size=8]}
      - {label: small, factor: model, overrides: [model.mixer.block_size=4]}
    claims: [{value: 1.0, source: A}, {value: 0.5, source: B}]
"""


def read(folder: Path, text: str = WALK) -> TableSpec:
    path = folder / "mine.yaml"
    path.write_text(text)
    return load_table(str(path))


def test_each_step_changes_what_it_says(tmp_path: Path) -> None:
    (walk,) = read(tmp_path).walks
    start, averaged, two, other, small = walk.stations
    assert (start.reading.over, averaged.reading.over) == ("max", "mean")
    assert start.overrides == averaged.overrides
    assert set(start.overrides) - set(two.overrides) == {"model.layers=3"}
    assert "model.mixer.g=mlp" not in other.overrides  # a setting of the mixer that is left
    assert set(other.overrides) ^ set(small.overrides) == {
        "model.mixer.block_size=8",
        "model.mixer.block_size=4",
    }


def test_the_end_without_a_step_is_the_walk_that_skips_it(tmp_path: Path) -> None:
    (walk,) = read(tmp_path).walks
    end = walk.stations[-1]
    assert walk.without(0).overrides == end.overrides
    assert walk.without(0).reading.over == "max"
    assert set(walk.without(1).overrides) ^ set(end.overrides) == {
        "model.layers=2",
        "model.layers=3",
    }
    assert "model=blockdiag" in walk.without(2).overrides
    assert walk.without(3).overrides == walk.stations[-2].overrides


def test_a_station_is_one_cell_however_it_is_reached(tmp_path: Path) -> None:
    spec = read(tmp_path)
    assert len(spec.cells) == 6  # four on the way, and two ends without a step that are new
    assert len({frozenset(cell.overrides) for cell in spec.cells}) == len(spec.cells)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("factor: arithmetic", "factor: luck", "factor of a step of .* 'luck' unknown"),
        ("[model.layers=2]", "[model.width=8]", "sets model.width, which the start does not name"),
        ("over: mean", "over: median", "over of a reading of .* 'median' unknown"),
        ("rule: best", "rule: lucky", "rule of a reading of .* 'lucky' unknown"),
        (", {value: 0.5, source: B}", "", "has 1 claims; a walk has one for each end"),
        ("reading: {over: mean}", "reading: {}", "step 'mean' changes nothing"),
        ("walks:\n", "walk:\n", "has no list 'walks'"),
        ("    start: [task=mod_arith, ", "    start: [task, ", "a list of KEY=VALUE"),
        (", {value: 0.5, source: B}", ", {value: high, source: B}", "must be a number, not 'high'"),
        ("reading: {over: mean}", "reading: [mean]", "expected a mapping with 'rule'"),
        ("label: two\n", "label: two\n    begin: 1\n", "key of .* 'begin' unknown"),
    ],
)
def test_what_is_not_a_walk_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in WALK
    with pytest.raises(UserError, match=said):
        read(tmp_path, WALK.replace(old, new, 1))


def test_the_built_in_walks_end_at_other_settings_than_they_begin() -> None:
    spec = load_table("protocols")
    for walk in spec.walks:
        stations = walk.stations
        changed = [s.overrides for s in stations]
        assert len(set(changed)) == 1 + sum(bool(step.overrides) for step in walk.steps)
        assert {one.overrides for one in walk.every_station} <= {c.overrides for c in spec.cells}
