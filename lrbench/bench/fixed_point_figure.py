"""The figure of `lrbench bench fixed_point`: iterations by kind of network, time by length."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrbench.bench.fixed_point import LENGTH, IterationCount, LayerCost
from lrbench.errors import UserError
from lrbench.report.figures.axes import STYLE
from lrbench.report.figures.draw import COLOURS, MARKERS, NO_METADATA, require_matplotlib
from lrbench.report.figures.portable_svg import portable_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

KINDS = ("svg", "pdf")


def check_figure(path: Path) -> None:
    """Raise UserError, before anything is measured, for a file that could not be drawn."""
    if path.suffix.lstrip(".") not in KINDS:
        raise UserError(f"--figure '{path}' must end in .svg or .pdf", exit_code=2)
    require_matplotlib()


def draw_figure(counts: Sequence[IterationCount], costs: Sequence[LayerCost], path: Path) -> None:
    """Write both panels to `path`. Raises UserError where that is refused."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _iterations(left, counts)
        _times(right, costs)
        kind, drawn = path.suffix.lstrip("."), io.BytesIO()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(drawn, format=kind, metadata=NO_METADATA[kind])
            made = drawn.getvalue()
            path.write_bytes(portable_svg(made) if kind == "svg" else made)
        except OSError as error:
            told = (error.strerror or str(error)).lower()
            raise UserError(f"--figure '{path}': {told}") from error


def _iterations(axes: Axes, counts: Sequence[IterationCount]) -> None:
    """A line a surrogate over the kinds of networks: the median of draws."""
    kinds = list(dict.fromkeys((count.scale, count.radius) for count in counts))
    for place, name in enumerate(dict.fromkeys(count.surrogate for count in counts)):
        mine = [count.median for count in counts if count.surrogate == name]
        axes.plot(range(len(kinds)), mine, label=name, **_style(place))
    axes.axhline(LENGTH, color="#6e6e6e", linewidth=0.8, linestyle=(0, (1, 1.5)))
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis, (2, 5, 10, 20, 50, 100, 200))
    axes.set_xticks(range(len(kinds)), [f"{scale:g}\n{radius:g}" for scale, radius in kinds])
    axes.set_xlabel("scale of the inputs, spectral radius of A")
    axes.set_ylabel(f"iterations, T = {LENGTH}")
    _legend_below(axes, 3)


def _times(axes: Axes, costs: Sequence[LayerCost]) -> None:
    """A line a model over lengths: time a symbol, forward and backward."""
    reached: list[float] = []
    for place, name in enumerate(dict.fromkeys(cost.model for cost in costs)):
        mine = [cost for cost in costs if cost.model == name]
        per_symbol = [cost.seconds * 1e6 / (cost.length * cost.batch) for cost in mine]
        axes.plot([cost.length for cost in mine], per_symbol, label=name, **_style(place))
        reached += per_symbol
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = min(reached), max(reached)
    steps = (digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5))
    _plain_ticks(axes.yaxis, [step for step in steps if low / 2 < step < high * 2])
    _plain_ticks(axes.xaxis, sorted({cost.length for cost in costs}))
    axes.set_xlabel("length T (log scale)")
    axes.set_ylabel("microseconds a symbol")
    _legend_below(axes, 2)


def _plain_ticks(axis: Axis, places: Sequence[float]) -> None:
    """Put plain numbers at some places of a logarithmic axis, and nothing between."""
    axis.set_ticks(places, [f"{place:g}" for place in places])
    axis.set_ticks([], minor=True)


def _legend_below(axes: Axes, columns: int) -> None:
    axes.legend(ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.24))


def _style(place: int) -> dict[str, Any]:
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    colour = COLOURS[place % len(COLOURS)]
    return {"color": colour, "marker": marker, "markersize": 3.2, "linewidth": 1.2}
