"""Walks as waterfalls: a row a station, a bar from the number before a step to the one after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.axes import GREY, INK, drawable
from lrbench.report.tables.walks import LEVEL, Stand, Walked
from lrbench.statistics import percentiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, MARGIN = 7.2, 0.24, 0.75  # inches
FALL, RISE = "#D55E00", "#009E73"
CAPTION = (
    "The number after each step of a walk: a bar is what the step changed (orange down, green up),"
    " a dot a run, a line the 95 % interval, a diamond what the paper prints"
)


def walk_figure(walks: Sequence[Walked]) -> Figure:
    """Draw walks with runs, one above the other; the settings must be those of `draw.settings`."""
    from matplotlib.figure import Figure

    sizes = [len(one.stands) for one in walks]
    height = sum(MARGIN + ROW * size for size in sizes)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    ratios = [MARGIN + ROW * size for size in sizes]
    found = figure.subplots(len(walks), 1, squeeze=False, height_ratios=ratios)[:, 0]
    for axes, one in zip(found.tolist(), walks, strict=True):
        _panel(axes, one)
    return figure


def _panel(axes: Axes, one: Walked) -> None:
    stands = one.stands
    axes.set_title(drawable(one.walk.label))
    axes.set_yticks(range(len(stands)), [drawable(_name(stand)) for stand in stands])
    axes.set_ylim(len(stands) - 0.4, -0.6)
    lowest = min([0.0, *(value for stand in stands for value in stand.values)])  # below chance
    axes.set_xlim(lowest - 0.02, 1.02)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("accuracy, read as that station reads it")
    before: float | None = None
    for row, stand in enumerate(stands):
        value = stand.value
        if value is not None:
            _station(axes, row, stand, value, before)
        before = value
    for row, claim in ((0, one.walk.claims[0]), (len(stands) - 1, one.walk.claims[1])):
        axes.plot([claim.value], [row], "D", markersize=4, mfc="white", mec=INK, zorder=4)


def _station(axes: Axes, row: int, stand: Stand, value: float, before: float | None) -> None:
    if before is not None:
        colour = FALL if value < before else RISE
        axes.barh(row, value - before, left=before, height=0.62, color=colour, alpha=0.35)
        axes.plot([before, before], [row - 1, row], color=GREY, linewidth=0.6, zorder=1)
    if stand.draws is not None:
        axes.plot(percentiles(stand.draws, LEVEL), [row, row], color=INK, linewidth=0.8, zorder=2)
    look: dict[str, Any] = {"linestyle": "", "markersize": 2.5, "color": GREY, "zorder": 3}
    axes.plot(stand.values, [row] * len(stand.values), marker="o", **look)
    axes.plot([value], [row], marker="|", markersize=9, color=INK, mew=1.6, zorder=3)


def _name(stand: Stand) -> str:
    factor = stand.station.factor
    return f"{stand.station.label} ({factor})" if factor else stand.station.label
