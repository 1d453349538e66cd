"""Legends below panels, and numbers below columns."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from lrbench.report.figures.axes import new_figure, panel_legend


def test_a_legend_below_a_panel_has_a_line_for_each_line_of_its_labels() -> None:
    axes = Figure().subplots()
    lines = {name: axes.plot([0, 1])[0] for name in ("one", "two", "a label " * 6)}
    assert panel_legend(axes, {name: lines[name] for name in ("one", "two")}, 3.0) == 2
    rows = panel_legend(axes, lines, 1.5)
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert rows == sum(text.count("\n") + 1 for text in texts) > 3
    assert [" ".join(text.split()) for text in texts] == [name.strip() for name in lines]


def test_each_column_of_panels_has_numbers_below_its_last() -> None:
    """Five panels stand in rows of three: nothing is below the third."""
    figure, panels = new_figure("", 5)
    figure.canvas.draw()
    shown = [any(label.get_visible() for label in axes.get_xticklabels()) for axes in panels]
    assert shown == [False, False, True, True, True]
