"""The frame of a figure: its style, its axes with their ticks, and its legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.data import COSTS, Panel
from lrbench.report.figures.positions import LENGTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANCE, BASELINE, FRONT = "chance", "best baseline", "Pareto front of the means"
GREY = "#6e6e6e"
PALE = "#b4b4b4"  # what learned nothing
INK = "#222222"
WIDTH, HEIGHT = 3.5, 2.2  # inches: one column of a paper; the legend comes on top
PANEL_WIDTH, ABREAST = 2.6, 3  # inches; most panels side by side
LEGEND_ROW = 0.14
LEGEND_SIZE = 7  # points
LETTER = 0.60 * LEGEND_SIZE / 72  # inches: about as wide as a letter of a legend is
HANDLE = 0.42  # inches: a legend's line and what is around it
# Leading digits of ticks: the first row of which two are inside is used.
TICKS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(n / 10 for n in range(10, 100)))
TICK_ROOM = 0.45  # inches, between two of them

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
    "legend.fontsize": LEGEND_SIZE,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "lrbench",
}


def new_figure(
    title: str, count: int, width: float = PANEL_WIDTH, height: float = HEIGHT
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, in rows of three, that share the axis of accuracies.

    width, height: of a panel in inches; a single one is as wide as a column.
    """
    from matplotlib.figure import Figure

    columns = columns_of(count)
    rows = -(-count // columns)
    size = (0.6 + width * columns if count > 1 else WIDTH, height * rows)
    figure = Figure(figsize=size, layout="constrained")
    options: dict[str, Any] = {"sharex": rows > 1, "sharey": True, "squeeze": False}
    found: list[Axes] = list(figure.subplots(rows, columns, **options).flat)
    for axes in found[count:]:
        axes.remove()
    if title:
        found[0].set_title(drawable(title))
    for place, axes in enumerate(found[:count]):
        axes.set_ylim(-0.03, 1.04)
        axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1] if height >= HEIGHT else [0, 0.5, 1])
        axes.tick_params(axis="y", length=0)
        axes.patch.set_visible(False)  # the figure's own is there
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(labelbottom=is_lowest(place, count))
    return figure, found[:count]


def is_lowest(place: int, count: int) -> bool:
    """Tell whether a panel has none below it: of these the axis of numbers is written out."""
    return place + columns_of(count) >= count


def columns_of(count: int) -> int:
    """Return how many of `count` panels stand in a row: at most three, and rows of like length."""
    return -(-count // -(-count // ABREAST))


def length_axis(axes: Axes, panel: Panel, inches: float = WIDTH) -> None:
    """Make the axis of lengths in so wide a panel, with the training length and chance marked."""
    lengths = [x for curve in panel.curves for trial in curve.trials for x, _ in trial.by_length]
    low, high = min(lengths), max(lengths)
    log_ticks(axes, low / 1.15, high * 1.15, inches)
    axes.set_xlabel(f"{panel.axis} (log scale)")
    for length in panel.train_lengths:
        axes.axvline(length, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1)
        above(axes, length, f"trained on {length:,}", ha="left")
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


def above(axes: Axes, length: float, text: str, ha: str = "center") -> None:
    """Write `text` above the panel, at a length, and move the title out of its way."""
    axes.set_title(axes.get_title(loc="left"), pad=11)
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": ha}
    offset: dict[str, Any] = {"xytext": (0, 2), "textcoords": "offset points"}
    axes.annotate(text, (length, 1.0), color=GREY, fontsize=6, **place, **offset)


def cost_axis(axes: Axes, panel: Panel, cost: str, inches: float = WIDTH) -> None:
    """Make the axis of a cost in so wide a panel, with chance at the test length marked."""
    known = [trial.costs[cost] for c in panel.curves for trial in c.trials if cost in trial.costs]
    log_ticks(axes, min(known) / 1.4, max(known) * 1.4, inches)
    devices = f" ({', '.join(panel.devices)})" if cost == "train_seconds" else ""
    axes.set_xlabel(drawable(COSTS[cost] + devices))
    values = [value for length, value in panel.chance if length == panel.test_length]
    for chance in values:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), label=_level(panel))


def log_ticks(axes: Axes, low: float, high: float, inches: float = WIDTH) -> None:
    """A log axis, so many inches wide, with round numbers written out, as many as have room."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    room = math.log(high / low) * TICK_ROOM / inches
    shown: list[float] = []
    for steps in TICKS:
        shown = _apart([n * 10**e for e in range(-3, 13) for n in steps], low, high, room)
        if len(shown) >= 2:
            break
    axes.set_xticks(shown, [_short(tick) for tick in shown])
    axes.minorticks_off()


def _apart(ticks: Sequence[float], low: float, high: float, room: float) -> list[float]:
    """Those of increasing `ticks` in the range whose logarithms differ by `room` or more."""
    kept: list[float] = []
    for tick in ticks:
        if low <= tick <= high and (not kept or math.log(tick / kept[-1]) >= room):
            kept.append(tick)
    return kept


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:g}M"
    return f"{number / 1000:g}k" if number >= 10_000 else f"{number:,g}"


def legend_below(figure: Figure, named: dict[str, Any], columns: int = 1) -> None:
    """Below everything, in room of its own: no line is hidden, whatever the curves do.

    named: what is drawn by its label; long labels are wrapped. The figure grows by the legend.
    """
    width, height = figure.get_size_inches()
    texts, rows = _wrapped(named, width / columns, columns)
    figure.set_figheight(height + LEGEND_ROW * rows)
    options: dict[str, Any] = {"handlelength": 2.2, "columnspacing": 1.4, "alignment": "left"}
    figure.legend(list(named.values()), texts, loc="outside lower left", ncols=columns, **options)


def panel_legend(axes: Axes, named: dict[str, Any], width: float) -> int:
    """Below one panel of several, so many inches wide; return how many lines it has."""
    from matplotlib.transforms import ScaledTranslation

    texts, rows = _wrapped(named, width, 1)
    figure: Any = axes.figure
    below = axes.transAxes + ScaledTranslation(0, -0.42, figure.dpi_scale_trans)
    place: dict[str, Any] = {"bbox_to_anchor": (0, 0), "bbox_transform": below}
    axes.legend(list(named.values()), texts, loc="upper left", borderaxespad=0, **place)
    return rows


def _wrapped(named: dict[str, Any], width: float, columns: int) -> tuple[list[str], int]:
    """The labels in lines of so many inches, and the lines of the longest column."""
    letters = max(12, int((width - HANDLE) / LETTER))
    texts = [textwrap.fill(label, letters, subsequent_indent="  ") for label in named]
    lines = [text.count("\n") + 1 for text in texts]
    each = -(-len(lines) // columns)
    return texts, max((sum(lines[i : i + each]) for i in range(0, len(lines), each)), default=0)


def drawable(text: str) -> str:
    r"""Return `text` with what the figures' font has no glyph for written out, as \u6a21."""
    glyphs = _glyphs()
    return "".join(
        c if c == " " or (c.isprintable() and ord(c) in glyphs) else ascii(c)[1:-1] for c in text
    )


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())
