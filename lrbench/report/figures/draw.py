"""Figures as SVG, PDF and PNG: accuracy against length, and against what it cost.

The same numbers give the same bytes: no dates, no random ids, and the font that matplotlib ships.
Letters are drawn as outlines in SVG, so that a figure looks the same everywhere and no name in it
is ever markup; in PDF they stay text (TrueType, as journals ask for).
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

from lrbench.errors import UserError
from lrbench.report.figures.axes import (
    FRONT,
    INK,
    STYLE,
    cost_axis,
    drawable,
    legend_below,
    length_axis,
    new_figure,
    update_axis,
)
from lrbench.report.figures.data import COSTS, Curve, Panel, panels, pareto, prefix_panels
from lrbench.report.figures.horizon_chart import CAPTION, horizon_chart, horizon_figure
from lrbench.report.figures.learning import learning_panels
from lrbench.report.figures.portable_svg import portable_svg
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.length_curves import solving
from lrbench.report.tables.request import Request, narrowed
from lrbench.tables import TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def drawings(
    collection: Collection, request: Request, formats: Sequence[str] = ("svg",)
) -> Iterator[Drawing]:
    """Yield the figures of what `request` shows, each in all `formats`: svg, pdf, png.

    A table of lengths has no figures of costs, and only the curves that are its rows. Raises
    UserError where matplotlib is not installed.
    """
    table, rule = request.table, request.one_rule
    if table is not None:
        yield from _horizons(collection, table, rule, formats)
    if table is not None and table.kind == "lengths":
        mine = solving(collection, table, rule, request.fingerprints)
        yield from draw(panels(mine, rule), formats, only_lengths=True)
    else:
        mine = narrowed(collection, request)
        learning, prefixes = learning_panels(mine), prefix_panels(mine, rule)
        yield from draw(panels(mine, rule), formats, learning=learning, prefixes=prefixes)


def _horizons(
    collection: Collection, table: TableSpec, rule: str, formats: Sequence[str]
) -> Iterator[Drawing]:
    """The first picture of a table: how far each run holds."""
    require_matplotlib()
    import matplotlib

    chart = horizon_chart(collection, table, rule)
    if chart is not None:
        with matplotlib.rc_context(settings()):
            files = saved(horizon_figure(chart), formats)
        yield Drawing("figure_horizons", f"{CAPTION} (rule {rule})", files)


# Okabe & Ito's colours for all kinds of colour vision, without the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
NO_METADATA = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}

PNG_DPI = 200  # of the one kind that has pixels
PAGE = "page"  # SVG for inside a page: letters stay text, a quarter of the size
TEXT: Any = {"svg.fonttype": "none"}
NO_CHANGE: Any = {}

Style = tuple[str, str]  # colour, marker


@dataclass(frozen=True)
class Drawing:
    """A figure: the name of its files, what it shows, and its bytes by kind ('svg', 'pdf')."""

    name: str
    caption: str
    files: dict[str, bytes]


def draw(
    panels: Sequence[Panel],
    formats: Sequence[str],
    only_lengths: bool = False,
    learning: Sequence[Panel] = (),
    prefixes: Sequence[Panel] = (),
) -> Iterator[Drawing]:
    """Yield the figures of each panel: against length, and unless `only_lengths` against cost.

    With `only_lengths` the horizons are marked. Prefix curves come after them, learning curves
    last. Raises UserError where matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib

    styles = _styles([*panels, *prefixes, *learning])
    with matplotlib.rc_context(settings()):
        for panel in panels:
            files = saved(length_figure(panel, styles, marked=only_lengths), formats)
            caption = f"{panel.title}: accuracy against {panel.axis}"
            ring = "; a ring is the median run's horizon" if only_lengths else ""
            yield Drawing(f"figure_length_{panel.slug}", caption + ring, files)
            if only_lengths:
                continue
            if panel.test_length is not None and any(panel_costs(panel)):
                files = saved(cost_figure(panel, styles), formats)
                caption = f"{panel.title}: accuracy at {panel.test_length:,} against its cost"
                yield Drawing(f"figure_cost_{panel.slug}", caption, files)
        for panel in prefixes:
            files = saved(prefix_figure(panel, styles), formats)
            caption = f"{panel.title}: strings right up to each position"
            yield Drawing(f"figure_prefix_{panel.slug}", caption, files)
        for panel in learning:
            files = saved(learning_figure(panel, styles), formats)
            caption = f"{panel.title}: accuracy {panel.rule} at each look"
            yield Drawing(f"figure_learning_{panel.slug}", caption, files)


def settings() -> dict[Any, Any]:
    """Return what matplotlib is to be set to while it draws, whatever a user has set."""
    import matplotlib

    return {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}


def length_figure(panel: Panel, styles: dict[str, Style], marked: bool = False) -> Figure:
    """Accuracy against length: a thin line a trial, a thick one for their mean.

    Where it is `marked`, with a ring round the horizon of each model's median run.
    """
    figure, [axes] = new_figure(panel.title, 1)
    length_axis(axes, panel)
    for curve in panel.curves:
        _lines(axes, curve, styles[curve.label])
        if marked:
            _ring(axes, curve, styles[curve.label][0])
    axes.set_ylabel(f"accuracy (rule {panel.rule})")
    legend_below(figure, [axes], panel)
    return figure


def prefix_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """The share of strings that are right at every position so far, against the position."""
    figure, [axes] = new_figure(panel.title, 1)
    length_axis(axes, panel)
    for curve in panel.curves:
        _lines(axes, curve, styles[curve.label])
    axes.set_ylabel(f"strings right so far (rule {panel.rule})")
    legend_below(figure, [axes], panel)
    return figure


def learning_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """Accuracy at each look against updates: a thin line a trial, a thick one for their mean."""
    figure, [axes] = new_figure(panel.title, 1)
    for curve in panel.curves:
        _lines(axes, curve, styles[curve.label])
    update_axis(axes, panel)
    axes.set_ylabel(f"accuracy {panel.rule}, each look")
    legend_below(figure, [axes], panel)
    return figure


def cost_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """Accuracy at the test length against each known cost, with the Pareto front of the means."""
    costs = list(panel_costs(panel))
    figure, all_axes = new_figure(panel.title, len(costs))
    for axes, cost in zip(all_axes, costs, strict=True):
        for curve in panel.curves:
            _marks(axes, curve, cost, styles[curve.label])
        _front(axes, panel, cost)
        cost_axis(axes, panel, cost)
    all_axes[0].set_ylabel(f"accuracy at {panel.test_length:,} (rule {panel.rule})")
    legend_below(figure, all_axes, panel)
    return figure


def panel_costs(panel: Panel) -> Iterator[str]:
    """Yield the costs that are known beside an accuracy, and not the same in all trials."""
    for cost in COSTS:
        known = {trial.costs.get(cost) for curve in panel.curves for trial in curve.trials}
        if len(known) > 1 and any(curve.centre(cost) for curve in panel.curves):
            yield cost


def require_matplotlib() -> None:
    """Raise UserError where matplotlib is not installed; it is not imported yet."""
    if find_spec("matplotlib") is None:
        raise UserError(
            "figures, and the html page that holds them, need matplotlib, which is not installed\n"
            "in the checkout: pip install -c constraints.txt -e '.[plot]'\n"
            "without it there are: --format markdown, csv and latex"
        )


def _styles(panels: Sequence[Panel]) -> dict[str, Style]:
    """A curve looks the same in every panel, and unlike the others of a panel.

    Beyond the colours there are, the marker tells curves apart.
    """
    names = [{curve.label for curve in panel.curves} for panel in panels]
    style_numbers: dict[str, int] = {}
    for label in sorted(set().union(*names)):
        beside = set().union(*(group for group in names if label in group))
        taken = {style_numbers[other] for other in beside if other in style_numbers}
        style_numbers[label] = next(place for place in count() if place not in taken)
    return {
        label: (COLOURS[i % len(COLOURS)], MARKERS[(i + i // len(COLOURS)) % len(MARKERS)])
        for label, i in style_numbers.items()
    }


def _lines(axes: Axes, curve: Curve, style: Style) -> None:
    """A thin line a trial where there are several, a thick one for their mean."""
    colour, marker = style
    if len(curve.trials) > 1:
        axes.plot(*_thin(curve), color=colour, linewidth=0.6, alpha=0.5)
    if curve.mean:
        look: dict[str, Any] = {"marker": marker, "markersize": 3.2, "linewidth": 1.5}
        axes.plot(*zip(*curve.mean, strict=True), color=colour, label=_named(curve), **look)


def _marks(axes: Axes, curve: Curve, cost: str, style: Style) -> None:
    """A small mark a trial, a large one for their mean."""
    points, (colour, marker) = curve.against(cost), style
    common: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": ""}
    small: dict[str, Any] = {"markersize": 2.8, "alpha": 0.45, "mew": 0}
    large: dict[str, Any] = {"markersize": 6, "mec": "white", "mew": 0.6, "label": _named(curve)}
    if points:
        axes.plot([x for x, _ in points], [y for _, y in points], **common, **small)
        axes.plot(*[[value] for value in curve.centre(cost) or ()], **common, **large)


def _ring(axes: Axes, curve: Curve, colour: str) -> None:
    points = dict(curve.mean)
    if curve.horizon in points:
        ring: dict[str, Any] = {"marker": "o", "markersize": 8, "mfc": "none", "mec": colour}
        axes.plot([curve.horizon], [points[curve.horizon]], linestyle="", mew=1.1, **ring)


def _thin(curve: Curve) -> tuple[list[float], list[float]]:
    """All trials as one line with gaps: hundreds of lines would take seconds to draw."""
    gap = (math.nan, math.nan)
    points = [point for trial in curve.trials for point in (*trial.by_length, gap)]
    return [x for x, _ in points], [y for _, y in points]


def _front(axes: Axes, panel: Panel, cost: str) -> None:
    """A step line: what the cheapest model that is at least as good would cost."""
    front = pareto(centre for curve in panel.curves if (centre := curve.centre(cost)))
    if len(front) > 1:
        x, y = zip(*front, strict=True)
        line: dict[str, Any] = {"color": INK, "linewidth": 0.7, "zorder": 1, "label": FRONT}
        axes.plot(x, y, drawstyle="steps-post", **line)


def _named(curve: Curve) -> str:
    shown = len(curve.trials)
    runs = f"{shown}" if shown == curve.runs else f"{shown} of {curve.runs}"
    return f"{drawable(curve.label)} ({runs})"


def saved(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """Return a figure's bytes by kind; the settings must be those of `settings`."""
    import matplotlib

    made = {}
    for suffix in formats:
        kind, fonts = ("svg", TEXT) if suffix == PAGE else (suffix, NO_CHANGE)
        stream = io.BytesIO()
        with warnings.catch_warnings(), matplotlib.rc_context(fonts):
            # A crowded legend may leave little room: the figure is still right, only small.
            warnings.filterwarnings("ignore", message="constrained_layout not applied")
            metadata = NO_METADATA.get(kind)
            dpi: Any = PNG_DPI if kind == "png" else "figure"
            figure.savefig(stream, format=kind, metadata=metadata, dpi=dpi)
        made[suffix] = portable_svg(stream.getvalue()) if kind == "svg" else stream.getvalue()
    return made
