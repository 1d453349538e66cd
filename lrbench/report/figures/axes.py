"""The frame of a figure: its style, its axes with their ticks, and its legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.data import COSTS, Panel
from lrbench.report.figures.positions import LENGTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANCE, BASELINE, FRONT = "chance", "best baseline", "Pareto front of the means"
LINES = (CHANCE, BASELINE, FRONT)  # in the legend they come last
GREY = "#6e6e6e"
INK = "#222222"
MOST_LABELS = 24  # curves that are named; of more, the legend says how many
WIDTH, HEIGHT = 3.5, 2.2  # inches: one column of a paper; the legend comes on top
LEGEND_ROW = 0.14
# Leading digits of ticks: the first row of which two are inside is used.
TICKS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(n / 10 for n in range(10, 100)))
TICK_ROOM = 0.13  # of the axis, between two of them

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "lrbench",
}


def new_figure(title: str, count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels side by side that share the axis of accuracies."""
    from matplotlib.figure import Figure

    width = WIDTH if count == 1 else 0.6 + 2.1 * count
    figure = Figure(figsize=(width, HEIGHT), layout="constrained")
    all_axes: list[Axes] = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    all_axes[0].set_title(drawable(title))
    for axes in all_axes:
        axes.set_ylim(-0.03, 1.04)
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
        axes.set_axisbelow(True)
    return figure, all_axes


def length_axis(axes: Axes, panel: Panel) -> None:
    """Make the axis of lengths, with the training length and chance marked."""
    lengths = [x for curve in panel.curves for trial in curve.trials for x, _ in trial.by_length]
    low, high = min(lengths), max(lengths)
    log_ticks(axes, low / 1.15, high * 1.15)
    axes.set_xlabel(f"{panel.axis} (log scale)")
    for length in panel.train_lengths:
        axes.axvline(length, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1)
        _beside(axes, length, f" trained on {length:,}")
    if panel.chance:
        line: dict[str, Any] = {
            "color": GREY,
            "linewidth": 0.9,
            "linestyle": (0, (4, 2)),
            "zorder": 1,
        }
        values = [value for _, value in panel.chance]
        axes.plot([x for x, _ in panel.chance], values, label=_level(panel), **line)


def update_axis(axes: Axes, panel: Panel) -> None:
    """Make the axis of updates, from the start of training."""
    most = max(x for curve in panel.curves for trial in curve.trials for x, _ in trial.by_length)
    axes.set_xlim(0, most * 1.03)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda updates, _: _short(updates))
    axes.set_xlabel(panel.axis)


def _level(panel: Panel) -> str:
    """Over a corpus the best baseline looks at the strings: it is more than chance."""
    return CHANCE if panel.axis == LENGTH else BASELINE


def _beside(axes: Axes, length: float, text: str) -> None:
    axes.annotate(
        text,
        (length, 0.0),
        xycoords=("data", "axes fraction"),
        xytext=(1, 3),
        textcoords="offset points",
        color=GREY,
        fontsize=6.5,
    )


def cost_axis(axes: Axes, panel: Panel, cost: str) -> None:
    """Make the axis of a cost, with chance at the test length marked."""
    known = [trial.costs[cost] for c in panel.curves for trial in c.trials if cost in trial.costs]
    log_ticks(axes, min(known) / 1.4, max(known) * 1.4)
    devices = f" ({', '.join(panel.devices)})" if cost == "train_seconds" else ""
    axes.set_xlabel(drawable(COSTS[cost] + devices))
    values = [value for length, value in panel.chance if length == panel.test_length]
    for chance in values:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), label=_level(panel))


def log_ticks(axes: Axes, low: float, high: float) -> None:
    """A log axis with round numbers written out, as many as have room."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    shown: list[float] = []
    for steps in TICKS:
        shown = _apart([n * 10**e for e in range(-3, 13) for n in steps], low, high)
        if len(shown) >= 2:
            break
    axes.set_xticks(shown, [_short(tick) for tick in shown])
    axes.minorticks_off()


def _apart(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Those of increasing `ticks` in the range that stand far enough from the one before."""
    kept: list[float] = []
    room = math.log(high / low) * TICK_ROOM
    for tick in ticks:
        if low <= tick <= high and (not kept or math.log(tick / kept[-1]) >= room):
            kept.append(tick)
    return kept


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:g}M"
    return f"{number / 1000:g}k" if number >= 10_000 else f"{number:,g}"


def legend_below(figure: Figure, all_axes: Sequence[Axes], panel: Panel) -> None:
    """Below everything, in room of its own: no line is hidden, whatever the curves do."""
    named: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    curves = [label for label in named if label not in LINES]
    kept = [*curves[:MOST_LABELS], *(label for label in LINES if label in named)]
    more = len(curves) - MOST_LABELS
    columns = 2 if len(all_axes) == 1 else 3
    rows = -(-len(kept) // columns) + (more > 0)
    figure.set_figheight(HEIGHT + LEGEND_ROW * rows)
    figure.legend(
        [named[label] for label in kept],
        kept,
        loc="outside lower center",
        ncols=columns,
        title=f"{more} more are not named" if more > 0 else None,
        title_fontsize=7,
        handlelength=2.2,
        columnspacing=1.4,
    )


def drawable(text: str) -> str:
    r"""Return `text` with what the figures' font has no glyph for written out, as \u6a21."""
    from matplotlib.font_manager import findfont, get_font

    glyphs = get_font(findfont("DejaVu Sans")).get_charmap()
    return "".join(
        c if c == " " or (c.isprintable() and ord(c) in glyphs) else ascii(c)[1:-1] for c in text
    )
