"""The chart of horizons: the runs that stand in it, and what is drawn of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from lrbench.report.figures.draw import settings
from lrbench.report.figures.horizon_chart import COLOUR, horizon_chart, horizon_figure
from lrbench.report.runs.collect import collect
from lrbench.tables import TableCell, TableSpec

Write = Callable[..., Path]
SPEC = TableSpec(
    "chart",
    "Chart",
    tuple(
        TableCell((f"task={task}", f"model={model}"))
        for task in ("sum", "even_pair")
        for model in ("blockdiag", "s4", "gru")
    ),
)


def rows(scores: dict[int, float]) -> list[dict[str, Any]]:
    splits = {40: "train_length", 500: "test"}
    return [
        {
            **{"length": length, "split": splits.get(length, "further"), "metric": "accuracy"},
            **{"value": value, "n": 1000, "which": "best", "kind": "test"},
        }
        for length, value in scores.items()
    ]


@pytest.fixture
def three(write: Write) -> None:
    write(seed=0, evaluations=rows({40: 1.0, 500: 1.0, 997: 1.0}))
    write(seed=1, evaluations=rows({40: 1.0, 500: 1.0, 997: 0.5}))
    write(model="s4", fingerprint="b" * 12, evaluations=rows({40: 0.3, 500: 0.2}))


def test_a_row_a_model_and_a_dot_a_run(three: None, runs: Path) -> None:
    chart = horizon_chart(collect(runs), SPEC, "best")
    assert chart is not None
    assert (chart.labels, chart.tasks) == (("blockdiag", "s4"), ("sum",))  # with runs
    assert [one.text for one in chart.runs["sum", "blockdiag"]] == [">= 997", "500"]
    assert [one.text for one in chart.runs["sum", "s4"]] == ["< 40"]
    with matplotlib.rc_context(settings()):
        figure = horizon_figure(chart)
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["blockdiag", "s4"]
    drawn = {
        (line.get_marker(), round(float(y))): float(x)
        for line in axes.lines
        if line.get_linestyle() == "None"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert drawn["o", 0] == 500  # it was seen to fail at 997
    assert drawn[">", 0] == 997  # it failed nowhere
    assert drawn["o", 1] == axes.get_xlim()[0]  # it holds nowhere: at the edge, hollow
    assert {text.get_text() for text in axes.texts} == {"paper 500"}
    colours = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert sorted(colours) == sorted([COLOUR, "white"])


def test_a_run_that_diverged_has_a_ring(three: None, write: Write, runs: Path) -> None:
    """Without one, a model would look as good as those of its runs that did not."""
    write(seed=2, status="diverged", evaluations=rows({}))
    chart = horizon_chart(collect(runs), SPEC, "best")
    assert chart is not None
    texts = [one.text for one in chart.runs["sum", "blockdiag"]]
    assert texts == [">= 997", "500", "diverged"]
    with matplotlib.rc_context(settings()):
        figure = horizon_figure(chart)
    [rings] = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert len(rings.get_xdata()) == 2  # and that of s4, which fails at every length


def test_a_run_that_diverged_behind_its_best_look_has_its_dot_alone(
    three: None, write: Write, runs: Path
) -> None:
    write(seed=2, status="diverged", evaluations=rows({40: 1.0, 500: 0.5}))
    chart = horizon_chart(collect(runs), SPEC, "best")
    assert chart is not None and len(chart.runs["sum", "blockdiag"]) == 3
    assert "diverged" not in [one.text for one in chart.runs["sum", "blockdiag"]]


def test_only_runs_that_diverged_have_no_chart(write: Write, runs: Path) -> None:
    write(status="diverged", evaluations=rows({}))
    assert horizon_chart(collect(runs), SPEC, "best") is None


def test_many_runs_of_a_model_stay_in_its_row(write: Write, runs: Path) -> None:
    for seed in range(6):
        write(seed=seed, evaluations=rows({40: 1.0, 500: 1.0, 997: 0.5}))
    write(model="s4", fingerprint="b" * 12, evaluations=rows({40: 1.0, 500: 0.2}))
    chart = horizon_chart(collect(runs), SPEC, "best")
    assert chart is not None
    [axes] = horizon_figure(chart).axes
    heights = [
        float(y)
        for line in axes.lines
        if line.get_marker() == "o"
        for y in np.atleast_1d(np.asarray(line.get_ydata(), float))
    ]
    assert sorted(heights) == pytest.approx([*np.linspace(-0.33, 0.33, 6), 1.0])
    bottom, top = axes.get_ylim()
    assert bottom > 1.4 and -1 < top < -0.4  # a row of the height of the others, and no empty one


def test_errors_and_other_rules_have_no_chart(write: Write, runs: Path) -> None:
    write(evaluations=[{**row, "metric": "nrmse"} for row in rows({40: 0.1, 500: 0.2})])
    assert horizon_chart(collect(runs), SPEC, "best") is None


def test_a_rule_without_scores_has_no_chart(three: None, runs: Path) -> None:
    assert horizon_chart(collect(runs), SPEC, "band") is None
