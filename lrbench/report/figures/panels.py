"""Drawings of a panel's curves: against length, position and updates, and against cost.

What learned its task has a colour, at most seven lines of a panel; what did not is grey and named
once, and so are the curves that nobody could tell apart, since they are 1.00 at every length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.axes import (
    FRONT,
    INK,
    LEGEND_ROW,
    PALE,
    PANEL_WIDTH,
    WIDTH,
    columns_of,
    cost_axis,
    drawable,
    is_lowest,
    legend_below,
    length_axis,
    new_figure,
    panel_legend,
    update_axis,
)
from lrbench.report.figures.data import COSTS, Curve, Panel, pareto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours for all kinds of colour vision, without the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
BELOW = "no better than the best baseline"
NO_BREAK = "\u00a0"  # a space at which no line of a legend ends
MOST_LINES = len(COLOURS)  # of a panel
COST_WIDTH, FACET_WIDTH, FACET_HEIGHT = 2.1, 2.1, 1.1  # inches
FACET_FRAME = 0.5  # inches: the title above all of them and the axis below
FACET_TITLE = 7.5  # points

Style = tuple[str, str]  # colour, marker
Named = dict[str, Any]  # what is drawn, by its label


def styles_of(panels: Sequence[Panel]) -> dict[str, Style]:
    """Return the style of each curve that learned its task, the same in every panel.

    Lines side by side differ in colour as far as there are colours; of one colour, in the marker.
    """
    drawn = [group for panel in panels for group in _groups(_lines_of(panel))]
    names = [{curve.label for curve in group} for group in drawn]
    colours: dict[str, int] = {}
    for label in dict.fromkeys(one.label for panel in panels for one in _split(panel.curves)[0]):
        beside = set().union(*(group for group in names if label in group))
        taken = {colours[other] for other in beside if other in colours}
        colours[label] = next(place for place in count() if place not in taken) % len(COLOURS)
    styles: dict[str, Style] = {}
    for label, colour in colours.items():
        earlier = sum(colours[other] == colour for other in styles)
        styles[label] = (COLOURS[colour], MARKERS[(colour + earlier) % len(MARKERS)])
    return styles


def length_figure(panel: Panel, styles: dict[str, Style], marked: bool = False) -> Figure:
    """Accuracy against length: a thin line a trial, a thick one for their mean.

    Where it is `marked`, with a ring round the horizon of each model's median run.
    """
    return _against_length(panel, styles, f"accuracy (rule {panel.rule})", marked)


def prefix_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """The share of strings that are right at every position so far, against the position."""
    return _against_length(panel, styles, f"strings right so far (rule {panel.rule})")


def learning_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """Accuracy at each look against updates, a panel a model; the last is of what did not learn."""
    learned, rest = _split(panel.curves)
    facets = [[curve] for curve in learned] + [rest] * bool(rest)
    size = (FACET_WIDTH, FACET_HEIGHT) if len(facets) > 1 else ()
    figure, all_axes = new_figure("", len(facets), *size)
    figure.set_figheight(figure.get_figheight() + FACET_FRAME)
    figure.suptitle(drawable(panel.title), x=0.01, ha="left", fontsize=9)
    figure.supylabel(f"accuracy {panel.rule}", fontsize=8)
    named: Named = {}
    for axes, facet in zip(all_axes, facets, strict=True):
        update_axis(axes, panel)
        if facet is rest:
            named = _pale(axes, rest, panel)
            axes.set_title(f"the others ({len(rest)}), in grey", fontsize=FACET_TITLE)
        else:
            _lines(axes, facet[0], (styles[facet[0].label][0], ""))
            axes.set_title(_named(facet[0]), fontsize=FACET_TITLE)
    for place, axes in enumerate(all_axes):
        if not is_lowest(place, len(facets)):
            axes.set_xlabel("")
    if named:
        legend_below(figure, named)
    return figure


def cost_figure(panel: Panel, styles: dict[str, Style]) -> Figure:
    """Accuracy at the test length against each known cost, with the Pareto front of the means."""
    costs = list(panel_costs(panel))
    width = COST_WIDTH if len(costs) > 1 else WIDTH
    figure, all_axes = new_figure(panel.title, len(costs), width)
    learned, rest = _split(panel.curves)
    named: Named = {}
    others = _unlearned(rest, panel)
    for axes, cost in zip(all_axes, costs, strict=True):
        found = {_named(one): _marks(axes, [one], cost, styles[one.label]) for one in learned}
        found[others] = _marks(axes, rest, cost, (PALE, "o"))
        _front(axes, panel, cost)
        cost_axis(axes, panel, cost, width)
        named |= {label: mark for label, mark in found.items() if mark is not None}
        named |= _labelled(axes)
    all_axes[0].set_ylabel(f"accuracy at {panel.test_length:,} (rule {panel.rule})")
    legend_below(figure, named, columns=1 if len(costs) == 1 else 2)
    return figure


def panel_costs(panel: Panel) -> Iterator[str]:
    """Yield the costs that are known beside an accuracy, and not the same in all trials."""
    for cost in COSTS:
        known = {trial.costs.get(cost) for curve in panel.curves for trial in curve.trials}
        if len(known) > 1 and any(curve.centre(cost) for curve in panel.curves):
            yield cost


def _against_length(
    panel: Panel, styles: dict[str, Style], title: str, marked: bool = False
) -> Figure:
    rest, perfect = _split(panel.curves)[1], _perfect(panel)
    groups = list(_groups(_lines_of(panel)))
    width = PANEL_WIDTH if len(groups) > 1 else WIDTH
    figure, all_axes = new_figure(panel.title, len(groups), width)
    own: list[Named] = []
    shared: Named = {}
    for axes, group in zip(all_axes, groups, strict=True):
        length_axis(axes, panel, width)
        pale = _pale(axes, rest, panel)
        lines = {_named(curve): _lines(axes, curve, styles[curve.label]) for curve in group}
        for curve in perfect:
            lines_of_all = _lines(axes, curve, (INK, ""))
            names = "; ".join(map(_named, perfect))
            shared |= {f"1.00 at every {panel.axis.partition(',')[0]}: {names}": lines_of_all}
        for curve in [*group, *perfect] if marked else ():
            _ring(axes, curve, INK if curve in perfect else styles[curve.label][0])
        own.append({label: line for label, line in lines.items() if line is not None})
        shared |= pale | _labelled(axes)
    columns = columns_of(len(groups))
    for axes in all_axes[::columns]:
        axes.set_ylabel(title)
    if len(groups) == 1:
        legend_below(figure, own[0] | shared)
        return figure
    rows = [panel_legend(axes, named, width) for axes, named in zip(all_axes, own, strict=True)]
    below = sum(max(rows[i : i + columns]) for i in range(0, len(rows), columns))
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * below)
    legend_below(figure, shared)
    return figure


def _split(curves: Sequence[Curve]) -> tuple[list[Curve], list[Curve]]:
    """The curves that learned their task, and the others."""
    return [one for one in curves if one.learned], [one for one in curves if not one.learned]


def _perfect(panel: Panel) -> list[Curve]:
    """The curves at 1.00 at every length, where there are several: they hide each other."""
    found = [curve for curve in panel.curves if curve.learned and curve.throughout]
    return found if len(found) > 1 else []


def _lines_of(panel: Panel) -> list[Curve]:
    """The curves that have a line of their own."""
    perfect = _perfect(panel)
    return [curve for curve in panel.curves if curve.learned and curve not in perfect]


def _groups(curves: Sequence[Curve]) -> Iterator[Sequence[Curve]]:
    """Yield at most seven curves at a time, about as many each time; one group of none."""
    panels = max(1, -(-len(curves) // MOST_LINES))
    ends = [len(curves) * place // panels for place in range(panels + 1)]
    for start, end in pairwise(ends):
        yield curves[start:end]


def _unlearned(curves: Sequence[Curve], panel: Panel) -> str:
    where = f"not learned, or at chance at {panel.test_length:,}" if panel.test_length else BELOW
    return f"{where}: {'; '.join(drawable(curve.label) for curve in curves)}"


def _pale(axes: Axes, curves: Sequence[Curve], panel: Panel) -> Named:
    """The means of curves that did not learn, in grey, and their one label."""
    look: dict[str, Any] = {"color": PALE, "linewidth": 0.8, "zorder": 1.5}
    lines = [axes.plot(*zip(*curve.mean, strict=True), **look)[0] for curve in curves if curve.mean]
    return {_unlearned(curves, panel): lines[0]} if lines else {}


def _labelled(axes: Axes) -> Named:
    """The lines of the axes themselves: chance, the front."""
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def _lines(axes: Axes, curve: Curve, style: Style) -> Any:
    """A thin line a trial where there are several, a thick one for their mean, which is returned.

    None where no length was tested in all trials.
    """
    colour, marker = style
    if len(curve.trials) > 1:
        axes.plot(*_thin(curve), color=colour, linewidth=0.6, alpha=0.5)
    if not curve.mean:
        return None
    look: dict[str, Any] = {"marker": marker, "markersize": 3.2, "linewidth": 1.5}
    return axes.plot(*zip(*curve.mean, strict=True), color=colour, **look)[0]


def _marks(axes: Axes, curves: Sequence[Curve], cost: str, style: Style) -> Any:
    """A small mark a trial, a large one a mean, which are returned; None without points."""
    points = [point for curve in curves for point in curve.against(cost)]
    colour, marker = style
    common: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": ""}
    small: dict[str, Any] = {"markersize": 2.8, "alpha": 0.45, "mew": 0}
    large: dict[str, Any] = {"markersize": 6, "mec": "white", "mew": 0.6}
    if not points:
        return None
    centres = [centre for curve in curves if (centre := curve.centre(cost))]
    axes.plot(*zip(*points, strict=True), **common, **small)
    return axes.plot(*zip(*centres, strict=True), **common, **large)[0]


def _ring(axes: Axes, curve: Curve, colour: str) -> None:
    points = dict(curve.mean)
    if curve.horizon in points:
        ring: dict[str, Any] = {"marker": "o", "markersize": 8, "mfc": "none", "mec": colour}
        look: dict[str, Any] = {"linestyle": "", "mew": 1.1, "clip_on": False}
        axes.plot([curve.horizon], [points[curve.horizon]], **ring, **look)


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
    return f"{drawable(curve.label)}{NO_BREAK}({runs})"
