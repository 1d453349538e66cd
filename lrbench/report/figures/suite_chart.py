"""The charts of a suite: horizons by model and task, and scores against their cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import TYPE_CHECKING, Any

from lrbench.report.figures.axes import drawable, legend_below, log_ticks, new_figure
from lrbench.report.figures.horizon_chart import HorizonChart
from lrbench.report.figures.panels import COLOURS, MARKERS
from lrbench.report.runs.columns import Answer
from lrbench.report.suite.entries import MAIN, SCORED, Suite, SuiteEntry
from lrbench.report.suite.scores import interquartile_mean, stratified_interval
from lrbench.report.tables.horizons import Reached

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, ACROSS = 1.45, 5  # inches of a panel, and how many stand side by side
LONGEST = SCORED[-1]
PRICE_CAPTION = (
    f"The score at {LONGEST:,} of models that have ended on every task, against parameters and"
    " training time (median run); a bar is its 95 % interval"
)
PRICES = {"parameters": "parameters (log scale)", "seconds": "seconds of training (log scale)"}


def suite_chart(suite: Suite) -> HorizonChart | None:
    """Return the chart of the division main; None where no run has ended."""
    entries = [entry for entry in suite.entries if entry.division == MAIN and entry.columns]
    runs: dict[tuple[str, str], list[Reached]] = {}
    for entry in entries:
        for name in entry.columns:
            runs[name, entry.label] = entry.horizons(name)
    if not runs:
        return None
    tasks = tuple(
        name for name in entries[0].sizes if any((name, e.label) in runs for e in entries)
    )
    labels = tuple(entry.label for entry in entries)
    marked = {name: {"trained": SCORED[0]} for name in tasks}
    failures = {
        (name, entry.label): [_shortest(found) for found in entry.failures_by_seed(name)]
        for entry in entries
        for name in entry.columns
    }
    return HorizonChart(labels, tasks, runs, marked, True, PANEL, ACROSS, failures)


def _shortest(found: Sequence[Answer | None]) -> int | None:
    """The shortest failure of a seed's runs, of which a task of several automata has several."""
    return min((one.length for one in found if one and one.length is not None), default=None)


def price_figure(suite: Suite) -> Figure:
    """Draw the score of every complete entry against its sizes; settings are `draw.settings`."""
    entries = [entry for entry in suite.entries if entry.division == MAIN and entry.complete]
    figure, panels = new_figure("", len(PRICES), 3.2)
    named: dict[str, Any] = {}
    for axes, (what, title) in zip(panels, PRICES.items(), strict=True):
        costs = [cost_of(entry, what) for entry in entries]
        log_ticks(axes, min(costs) / 1.6, max(costs) * 1.6, 3.2)
        axes.set_xlabel(title)
        for at, (entry, cost) in enumerate(zip(entries, costs, strict=True)):
            look: dict[str, Any] = {
                "color": COLOURS[at % len(COLOURS)],
                "marker": MARKERS[at % len(MARKERS)],
            }
            named[drawable(entry.label)] = _point(axes, entry, cost, look)
    panels[0].set_ylabel(f"score at {LONGEST:,}")
    legend_below(figure, named, 3)
    return figure


def _point(axes: Axes, entry: SuiteEntry, cost: float, look: dict[str, Any]) -> Any:
    """Draw a score with its interval; return what a legend shows."""
    scores = entry.table(LONGEST)
    ends = stratified_interval(scores)
    if ends is not None:
        axes.plot([cost, cost], ends, color=look["color"], linewidth=0.8, zorder=2)
    value = interquartile_mean(scores)
    return axes.plot([cost], [value], markersize=4, linestyle="", zorder=3, **look)[0]


def cost_of(entry: SuiteEntry, what: str) -> float:
    """The median run's parameters or seconds, of an even number the lower of the two."""
    return max(median_low(float(getattr(run, what)) for run in entry.every_run), 1e-3)
