"""Figures as SVG, PDF and PNG: accuracy against length, and against what it cost.

The same numbers give the same bytes: no dates, no random ids, and the font that matplotlib ships.
Letters are drawn as outlines in SVG, so that a figure looks the same everywhere and no name in it
is ever markup; in PDF they stay text (TrueType, as journals ask for).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lrbench.errors import missing
from lrbench.report.figures.axes import STYLE
from lrbench.report.figures.data import Panel, panels, prefix_panels
from lrbench.report.figures.horizon_chart import CAPTION, CROSSES, horizon_chart, horizon_figure
from lrbench.report.figures.labels import row_labels
from lrbench.report.figures.learning import learning_panels
from lrbench.report.figures.panels import (
    cost_figure,
    learning_figure,
    length_figure,
    panel_costs,
    prefix_figure,
    styles_of,
)
from lrbench.report.figures.portable_svg import portable_svg
from lrbench.report.figures.suite_chart import PRICE_CAPTION, price_figure, suite_chart
from lrbench.report.figures.walk_chart import CAPTION as WALK_CAPTION
from lrbench.report.figures.walk_chart import walk_figure
from lrbench.report.runs.collection import Collection
from lrbench.report.suite.entries import suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.tables.length_curves import solving
from lrbench.report.tables.request import Request, narrowed
from lrbench.report.tables.walks import walked
from lrbench.tables import SUITE, WALKS, TableSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drawings(
    collection: Collection, request: Request, formats: Sequence[str] = ("svg",)
) -> Iterator[Drawing]:
    """Yield the figures of what `request` shows, each in all `formats`: svg, pdf, png.

    Curves are named as the table's rows are. A table of lengths has no figures of costs, and only
    the curves that are its rows. Raises UserError where matplotlib is not installed.
    """
    table, rule = request.table, request.one_rule
    if table is not None and table.kind == SUITE:
        yield from _suite(collection, table, rule, formats)
        return
    if table is not None and table.kind == WALKS:
        yield from _walks(collection, table, request.fingerprints, formats)
        return
    if table is not None:
        yield from _horizons(collection, table, rule, formats)
    if table is not None and table.kind == "lengths":
        mine = solving(collection, table, rule, request.fingerprints)
        labels = row_labels(collection, request)
        yield from draw(panels(mine, rule, labels), formats, only_lengths=True)
        return
    mine = narrowed(collection, request)
    labels = row_labels(collection, request)
    found = panels(mine, rule, labels)
    unlearned = {one.fingerprint for panel in found for one in panel.curves if not one.learned}
    learning = learning_panels(mine, labels, unlearned)
    yield from draw(found, formats, learning=learning, prefixes=prefix_panels(mine, rule, labels))


def _walks(
    collection: Collection, table: TableSpec, choose: Sequence[str], formats: Sequence[str]
) -> Iterator[Drawing]:
    """The waterfalls of the walks of which a run has ended."""
    require_matplotlib()
    import matplotlib

    found = [
        one for one in walked(collection, table, choose) if any(s.accuracies for s in one.stands)
    ]
    if found:
        with matplotlib.rc_context(settings()):
            files = saved(walk_figure(found), formats)
        yield Drawing("figure_walks", WALK_CAPTION, files)


def _suite(
    collection: Collection, table: TableSpec, rule: str, formats: Sequence[str]
) -> Iterator[Drawing]:
    """The pictures of a suite: how far each run holds, and the score against what it costs."""
    require_matplotlib()
    import matplotlib

    suite = suite_of(collection, table, read_lock(table.name), rule)
    with matplotlib.rc_context(settings()):
        if (chart := suite_chart(suite)) is not None:
            more = f"; {CROSSES}" if any(any(found) for found in chart.failures.values()) else ""
            caption = f"{CAPTION}; a bar reaches to the median run{more} (rule {rule})"
            yield Drawing("figure_horizons", caption, saved(horizon_figure(chart), formats))
        if any(entry.complete for entry in suite.entries):
            files = saved(price_figure(suite), formats)
            yield Drawing("figure_price", PRICE_CAPTION, files)


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


NO_METADATA = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}

THIN = "a thin line a run, a thick one their mean"
SMALL = "a small mark a run, a large one their mean"
PNG_DPI = 200  # of the one kind that has pixels
PAGE = "page"  # SVG for inside a page: letters stay text, a quarter of the size
TEXT: Any = {"svg.fonttype": "none"}
NO_CHANGE: Any = {}


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

    styles = styles_of([*panels, *prefixes, *learning])
    with matplotlib.rc_context(settings()):
        for panel in panels:
            files = saved(length_figure(panel, styles, marked=only_lengths), formats)
            caption = f"{panel.title}: accuracy against {panel.axis}; {THIN}"
            ring = "; a ring is the median run's horizon" if only_lengths else ""
            yield Drawing(f"figure_length_{panel.slug}", caption + ring, files)
            if only_lengths:
                continue
            if panel.test_length is not None and any(panel_costs(panel)):
                files = saved(cost_figure(panel, styles), formats)
                at = f"accuracy at {panel.test_length:,}"
                caption = f"{panel.title}: {at} against its cost; {SMALL}"
                yield Drawing(f"figure_cost_{panel.slug}", caption, files)
        for panel in prefixes:
            files = saved(prefix_figure(panel, styles), formats)
            caption = f"{panel.title}: strings right up to each position"
            yield Drawing(f"figure_prefix_{panel.slug}", caption, files)
        for panel in learning:
            files = saved(learning_figure(panel, styles), formats)
            caption = f"{panel.title}: accuracy {panel.rule} at each look; {THIN}"
            yield Drawing(f"figure_learning_{panel.slug}", caption, files)


def settings() -> dict[Any, Any]:
    """Return what matplotlib is to be set to while it draws, whatever a user has set."""
    import matplotlib

    return {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}


def require_matplotlib() -> None:
    """Raise UserError where matplotlib is not installed; it is not imported yet."""
    if find_spec("matplotlib") is None:
        raise missing(
            "matplotlib, which draws figures and the html page that holds them,",
            "plot",
            "without it there are: --format markdown, csv and latex",
        )


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
