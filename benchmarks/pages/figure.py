"""Figures of measured tables: a line a model or method, both axes logarithmic, as SVG."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lrbench.report.figures.axes import LEGEND_ROW, STYLE, TICKS
from lrbench.report.figures.draw import NO_METADATA, require_matplotlib
from lrbench.report.figures.panels import COLOURS, MARKERS
from lrbench.report.figures.portable_svg import portable_svg

Points = tuple[tuple[float, float], ...]
WIDTH, HEIGHT, COLUMNS = 4.2, 2.8, 3  # inches; columns of the legend
FEWEST_TICKS, MOST_TICKS = 3, 10


@dataclass(frozen=True)
class Plot:
    """A figure: its file's name, what it shows, its axes and lines (label -> points)."""

    name: str
    caption: str
    x: str
    y: str
    lines: dict[str, Points]
    level: float | None = None  # a height to mark


def svg(plot: Plot) -> bytes:
    """Return a figure, the same bytes for the same numbers; UserError without matplotlib."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}
    with matplotlib.rc_context(settings):
        height = HEIGHT + LEGEND_ROW * -(-len(plot.lines) // COLUMNS)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        for place, (label, points) in enumerate(plot.lines.items()):
            x, y = zip(*points, strict=True)
            axes.plot(x, y, label=label, **_style(place))
        if plot.level is not None:
            axes.axhline(plot.level, color="#6e6e6e", linewidth=0.8, linestyle=(0, (1, 1.5)))
        _log(axes, plot)
        figure.legend(loc="outside lower center", ncols=COLUMNS)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata=NO_METADATA["svg"])
    return portable_svg(stream.getvalue())


def _style(place: int) -> dict[str, Any]:
    colour = COLOURS[place % len(COLOURS)]
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.3}


def _log(axes: Any, plot: Plot) -> None:
    """Both axes logarithmic; ticks at the lengths that were measured, and at round heights."""
    points = list(chain.from_iterable(plot.lines.values()))
    axes.set_xscale("log")
    axes.set_yscale("log")
    lengths = sorted({x for x, _ in points})
    axes.set_xticks(lengths, [f"{x:,g}" for x in lengths])
    heights = [y for _, y in points] + ([] if plot.level is None else [plot.level])
    ticks = _ticks(min(heights) / 1.05, max(heights) * 1.05)
    axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)


def _ticks(low: float, high: float) -> list[float]:
    """Round heights between two, of the first row of TICKS that has enough of them; few of many."""
    shown: list[float] = []
    for steps in TICKS:
        shown = [n * 10.0**power for power in range(-6, 9) for n in steps]
        shown = [tick for tick in shown if low <= tick <= high]
        if len(shown) >= FEWEST_TICKS:
            break
    return shown if len(shown) <= MOST_TICKS else shown[:: -(-len(shown) // MOST_TICKS)]
