"""The chart of horizons: a row for each model, a dot for each run, a panel for each task.

A suite's has a cross as well: the shortest string that a run is known to get wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.axes import GREY, INK, above, drawable, log_ticks
from lrbench.report.figures.labels import short
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.horizons import Reached, median_of
from lrbench.report.tables.length_curves import horizons_by_cell
from lrbench.tables import TableSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, MARGIN = 0.2, 0.8  # inches
PANEL, LABELS = 1.9, 1.9  # inches: width of a panel, of the names at the left
COLOUR = "#0072B2"
APART, SPREAD = 0.23, 0.66  # of a row: between two dots of one model, and over all of them
Look = dict[str, Any]
Dots = list[tuple[float, float]]
RING: Look = {"marker": "o", "markersize": 3, "mfc": "white", "mec": GREY, "mew": 0.6}
ARROW: Look = {"marker": ">", "markersize": 4, "color": COLOUR, "mec": INK, "mew": 0.3}
DOT: Look = {"marker": "o", "markersize": 3, "color": COLOUR, "mew": 0}
CROSS: Look = {"marker": "x", "markersize": 3, "color": "#D55E00", "mew": 0.8}
BAR: Look = {"color": "#cfe3f1", "height": 0.62, "linewidth": 0, "zorder": 2}
CAPTION = (
    "Up to which length each run holds on random strings: a dot a run; an arrow failed nowhere; a"
    " ring at the left holds at no tested length"
)
DIVERGED = Reached(0, False, "diverged")  # a run that holds nowhere
CROSSES = "a cross is the shortest string that a run is known to get wrong"


@dataclass(frozen=True)
class HorizonChart:
    """Rows (labels), columns (tasks), and the horizons of the runs of each (task, label).

    A run that diverged before it had a score is one of a cell's. marked: by task, the words beside
    a length: those of training and of the test, the paper's where its table has the task. bars:
    whether a bar reaches to the median run. panel: inches of one. across: how many panels stand
    side by side, unset all. failures: of each run in turn, the symbols of the shortest string that
    it is known to get wrong, None where none is.
    """

    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    runs: dict[tuple[str, str], list[Reached]]
    marked: dict[str, dict[str, int]]
    bars: bool = False
    panel: float = PANEL
    across: int | None = None
    failures: dict[tuple[str, str], list[int | None]] = field(default_factory=dict)


def horizon_chart(collection: Collection, spec: TableSpec, rule: str) -> HorizonChart | None:
    """Return the chart of a table's runs; None where no run was scored at several lengths."""
    runs: dict[tuple[str, str], list[Reached]] = {}
    marked: dict[str, dict[str, int]] = {}
    for filled, horizons in horizons_by_cell(collection, spec, rule):
        known = [one for one in horizons if one.text != "?"]
        known += [DIVERGED] * filled.lost(rule, "test")
        if known:
            runs.setdefault((filled.task, filled.label), []).extend(known)
            trained = filled.settings.get("protocol.train_length")
            paper = filled.published
            printed = paper is not None and paper.test_length == filled.length
            here = {"trained": trained, "paper" if printed else "tested": filled.length}
            found = marked.setdefault(filled.task, {})
            found |= {words: length for words, length in here.items() if length}
    if all(one is DIVERGED for found in runs.values() for one in found):
        return None
    labels = tuple(dict.fromkeys(label for _, label in runs))
    tasks = tuple(dict.fromkeys(task for task, _ in runs))
    return HorizonChart(labels, tasks, runs, marked)


def horizon_figure(chart: HorizonChart) -> Figure:
    """Draw it; the settings must be those of `draw.settings`."""
    from matplotlib.figure import Figure

    rows, panels = len(chart.labels), len(chart.tasks)
    columns = min(chart.across or panels, panels)
    deep = -(-panels // columns)
    size = (LABELS + chart.panel * columns, (MARGIN + ROW * rows) * deep)
    figure = Figure(figsize=size, layout="constrained")
    placed = figure.subplots(deep, columns, sharey=True, squeeze=False).ravel().tolist()
    all_axes: Sequence[Axes] = placed[:panels]
    for axes in placed[panels:]:
        axes.remove()
    lengths = [one.length for runs in chart.runs.values() for one in runs if one.length]
    lengths += [length for found in chart.failures.values() for length in found if length]
    known = [*lengths, *(n for found in chart.marked.values() for n in found.values())]
    low, high = min(known) / 1.6, max(known) * 1.8
    for axes, task in zip(all_axes, chart.tasks, strict=True):
        _panel(axes, chart, task, low, high)
    all_axes[0].set_yticks(range(rows), [drawable(short(label)) for label in chart.labels])
    all_axes[0].set_ylim(rows - 0.4, -0.6)
    crosses = (
        "; \u00d7 shortest string known to be wrong"
        if any(map(any, chart.failures.values()))
        else ""
    )
    label = f"longest length held on random strings (log scale){crosses}"
    figure.supxlabel(label, fontsize=8)
    return figure


def _panel(axes: Axes, chart: HorizonChart, task: str, low: float, high: float) -> None:
    axes.set_title(drawable(task))
    log_ticks(axes, low, high, chart.panel)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.patch.set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    for words, length in _marked(chart.marked[task]).items():
        axes.axvline(length, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1)
        above(axes, length, f"{words} {length:,}")
    if chart.bars:
        for row, label in enumerate(chart.labels):
            end = _bar_end(chart.runs.get((task, label), ()))
            if end:
                axes.barh(row, end - low, left=low, **BAR)
    for look, points in _dots(chart, task, low, axes.get_xlim()[1]):
        axes.plot(*zip(*points, strict=True), linestyle="", zorder=3, clip_on=False, **look)


def _bar_end(runs: Sequence[Reached]) -> int:
    """The length that the median run holds to; 0 where there is no run, or it holds nowhere."""
    return median_of(runs).length if runs else 0


def _dots(chart: HorizonChart, task: str, low: float, high: float) -> Iterator[tuple[Look, Dots]]:
    """Yield the looks there are, each with its places (length, row).

    What holds nowhere stands at the left edge, and nothing beyond the right one.
    """
    rings: Dots = []
    arrows: Dots = []
    dots: Dots = []
    crosses: Dots = []
    for row, label in enumerate(chart.labels):
        runs = chart.runs.get((task, label), [])
        known = chart.failures.get((task, label), [None] * len(runs))
        paired = sorted(zip(runs, known, strict=True), key=lambda pair: pair[0])
        apart = min(APART, SPREAD / max(1, len(runs) - 1))
        for index, (one, failure) in enumerate(paired):
            place = row + apart * (index - (len(runs) - 1) / 2)
            if failure:
                crosses.append((failure, place))
            if not one.length:
                rings.append((low, place))
            elif one.everywhere:
                arrows.append((min(one.length, high), place))
            else:
                dots.append((one.length, place))
    kinds = ((RING, rings), (ARROW, arrows), (DOT, dots), (CROSS, crosses))
    yield from ((look, points) for look, points in kinds if points)


def _marked(found: dict[str, int]) -> dict[str, int]:
    """Of a test at one length by the paper and by us, the paper's."""
    paper = found.get("paper")
    return {
        words: length for words, length in found.items() if words != "tested" or length != paper
    }
