"""The pictures of a suite, of made-up runs: what stands in them, and that they are drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest

from lrbench.report.figures.draw import drawings, settings
from lrbench.report.figures.horizon_chart import horizon_figure
from lrbench.report.figures.suite_chart import cost_of, price_figure, suite_chart
from lrbench.report.runs.collect import collect
from lrbench.report.suite.entries import Suite, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.tables.request import Request
from lrbench.tables import load_table
from tests.report.suite.conftest import enter  # noqa: F401

Enter = Callable[..., Path]
SPEC = load_table("suite_v1")


@pytest.fixture
def runs(tmp_path: Path, enter: Enter) -> Path:  # noqa: F811
    """Two models on every task: one holds to 500 everywhere, one to 5,000."""
    for at in range(12):
        for seed in range(3):
            enter(at, lambda length: 1.0 if length <= 500 else 0.3, {"name": "lstm"}, seed=seed)
            enter(at, lambda _: 1.0, {"name": "gru"}, seed=seed)
    return tmp_path / "runs"


def suite(runs: Path) -> Suite:
    return suite_of(collect(runs), SPEC, read_lock("suite_v1"), "last")


def test_a_bar_reaches_to_the_median_run_and_a_dot_is_a_run(runs: Path) -> None:
    chart = suite_chart(suite(runs))
    assert chart is not None
    assert (chart.labels, len(chart.tasks), chart.bars) == (("lstm", "gru"), 10, True)
    with matplotlib.rc_context(settings()):
        panel = horizon_figure(chart).axes[0]
    ends = sorted(round(bar.get_x() + bar.get_width()) for bar in panel.patches)
    assert ends == [500, 5000]
    dots = [line for line in panel.lines if line.get_linestyle() == "None"]
    assert sum(len(line.get_xdata()) for line in dots) == 6
    assert not any(line.get_marker() == "x" for line in dots)


def test_a_cross_is_the_shortest_failure_beside_the_dot_of_its_run(
    tmp_path: Path,
    enter: Enter,  # noqa: F811
) -> None:
    """Of a seed's three automata the shortest of all; none where nothing is known to be wrong."""
    for at, lengths in {0: (12, None, 3), 7: (30, 9, 8), 8: (20, 40, 8), 9: (25, 41, 8)}.items():
        for seed, length in enumerate(lengths):
            held = 500 if seed == 0 else 40
            run = enter(at, lambda n, to=held: 1.0 if n <= to else 0.3, {"name": "lstm"}, seed=seed)
            if length is not None:
                file = run / "certificates" / "last.json"
                wrong = {"string": "1", "length": length, "shortest": False}
                content = json.loads(file.read_text()) | {"verdict": "wrong", "witness": wrong}
                file.write_text(json.dumps(content))
    chart = suite_chart(suite(tmp_path / "runs"))
    assert chart is not None
    assert chart.failures["parity", "lstm"] == [12, None, 3]
    assert chart.failures["dfa", "lstm"] == [20, 9, 8]
    with matplotlib.rc_context(settings()):
        panel = horizon_figure(chart).axes[0]
    (crosses,) = (line for line in panel.lines if line.get_marker() == "x")
    places = dict(zip(crosses.get_xdata(), crosses.get_ydata(), strict=True))
    dots = [line for line in panel.lines if line.get_marker() == "o"]
    rows = {y: x for line in dots for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
    assert sorted(places) == [3, 12]
    assert (rows[places[12]], rows[places[3]]) == (500, 40)
    assert panel.get_xlim()[0] < 3


def test_scores_stand_above_what_they_cost(runs: Path) -> None:
    with matplotlib.rc_context(settings()):
        figure = price_figure(suite(runs))
    points = [line.get_ydata()[0] for line in figure.axes[0].lines if line.get_marker() != "None"]
    assert points == pytest.approx([(0.3 - 0.2) / 0.8, 1.0])
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert texts == ["lstm", "gru"]


def test_a_cost_is_that_of_a_run_and_of_two_middle_ones_the_lower(runs: Path) -> None:
    entry = suite(runs).entries[0]
    (first, *_) = entry.every_run
    for seconds, expected in ((4.0, 1.0, 2.0, 8.0), 2.0), ((4.0, 1.0, 2.0), 2.0), ((0.0,), 1e-3):
        several = [replace(first, seed=at, seconds=one) for at, one in enumerate(seconds)]
        entry.runs = {("parity", 0): several}
        assert cost_of(entry, "seconds") == expected


@pytest.mark.slow
def test_a_report_has_both_and_none_without_runs(runs: Path, tmp_path: Path) -> None:
    names = [one.name for one in drawings(collect(runs), Request(SPEC))]
    assert names == ["figure_horizons", "figure_price"]
    (tmp_path / "empty").mkdir()
    assert not list(drawings(collect(tmp_path / "empty"), Request(SPEC)))
