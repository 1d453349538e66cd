"""How far each run holds: a row a model, a dot a run, a panel a task, length in logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.axes import GREY, INK, drawable, log_ticks
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.horizons import Reached
from lrbench.report.tables.length_curves import horizons_by_cell
from lrbench.tables import TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, MARGIN = 0.17, 0.75  # inches
PANEL, LABELS = 1.9, 1.9  # inches: width of a panel, of the names at the left
COLOUR = "#0072B2"
SPREAD = 0.32  # of a row, over which the dots of one model stand apart
CAPTION = (
    "Up to which length each run holds on random strings: a dot a run; an arrow failed nowhere; a"
    " ring at the left holds at no tested length"
)


@dataclass(frozen=True)
class HorizonChart:
    """Rows (labels), columns (tasks), and the horizons of the runs of each (task, label).

    marked: the lengths of training and of the paper's test, by task.
    """

    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    runs: dict[tuple[str, str], list[Reached]]
    marked: dict[str, tuple[int | None, int | None]]


def horizon_chart(collection: Collection, spec: TableSpec, rule: str) -> HorizonChart | None:
    """Return the chart of a table's runs; None where no run was scored at several lengths."""
    runs: dict[tuple[str, str], list[Reached]] = {}
    marked: dict[str, tuple[int | None, int | None]] = {}
    for filled, horizons in horizons_by_cell(collection, spec, rule):
        known = [one for one in horizons if one.text != "?"]
        if known:
            runs.setdefault((filled.task, filled.label), []).extend(known)
            trained = filled.settings.get("protocol.train_length")
            marked.setdefault(filled.task, (trained, filled.length))
    if not runs:
        return None
    labels = tuple(dict.fromkeys(label for _, label in runs))
    tasks = tuple(dict.fromkeys(task for task, _ in runs))
    return HorizonChart(labels, tasks, runs, marked)


def horizon_figure(chart: HorizonChart) -> Figure:
    """Draw it; the settings must be those of `draw.settings`."""
    from matplotlib.figure import Figure

    rows, columns = len(chart.labels), len(chart.tasks)
    size = (LABELS + PANEL * columns, MARGIN + ROW * rows)
    figure = Figure(figsize=size, layout="constrained")
    all_axes: Sequence[Axes] = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    lengths = [one.length for runs in chart.runs.values() for one in runs if one.length]
    known = [*lengths, *(n for pair in chart.marked.values() for n in pair if n)]
    low, high = min(known) / 1.6, max(known) * 1.8
    for axes, task in zip(all_axes, chart.tasks, strict=True):
        _panel(axes, chart, task, low, high)
    all_axes[0].set_yticks(range(rows), [drawable(label) for label in chart.labels])
    all_axes[0].set_ylim(rows - 0.4, -0.6)
    figure.supxlabel("longest length held on random strings (log scale)", fontsize=8)
    return figure


def _panel(axes: Axes, chart: HorizonChart, task: str, low: float, high: float) -> None:
    axes.set_title(drawable(task))
    log_ticks(axes, low, high)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for row in range(len(chart.labels)):
        axes.axhline(row, color="#ececec", linewidth=0.6, zorder=0)
    for length, words in zip(chart.marked[task], ("trained", "tested"), strict=True):
        if length:
            axes.axvline(length, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1)
            place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "rotation": 90}
            axes.annotate(
                f"{words} {length:,}",
                (length, 1.0),
                color=GREY,
                fontsize=6,
                ha="right",
                va="top",
                xytext=(-1, 0),
                textcoords="offset points",
                **place,
            )
    for row, label in enumerate(chart.labels):
        runs = sorted(chart.runs.get((task, label), ()))
        for index, one in enumerate(runs):
            shift = SPREAD * (2 * index / (len(runs) - 1) - 1) if len(runs) > 1 else 0
            _dot(axes, one, row + shift, low)


def _dot(axes: Axes, one: Reached, row: float, low: float) -> None:
    look: dict[str, Any] = {"linestyle": "", "zorder": 3, "clip_on": False}
    if not one.length:
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 3,
            "mfc": "white",
            "mec": GREY,
            "mew": 0.6,
        }
        axes.plot([low], [row], **ring, **look)
    elif one.everywhere:
        arrow: dict[str, Any] = {
            "marker": ">",
            "markersize": 4,
            "color": COLOUR,
            "mec": INK,
            "mew": 0.3,
        }
        axes.plot([min(one.length, axes.get_xlim()[1])], [row], **arrow, **look)
    else:
        axes.plot([one.length], [row], marker="o", markersize=3, color=COLOUR, mew=0, **look)
