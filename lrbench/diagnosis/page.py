"""A diagnosis as one page: sentences, pictures, tables. A single file that loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbench.diagnosis.dynamics import WORD_LENGTHS, Growth, Spectrum
from lrbench.diagnosis.extraction import NOT_FINITE
from lrbench.diagnosis.findings import Diagnosis, in_short, tables
from lrbench.diagnosis.states import Survey
from lrbench.report.figures.axes import GREY, HEIGHT, INK, WIDTH, drawable, log_ticks
from lrbench.report.figures.draw import require_matplotlib, saved, settings
from lrbench.report.figures.panels import COLOURS, MARKERS
from lrbench.report.output.html import Page, to_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOW = (
    "A model that knows the rule keeps the states of the task apart for ever: means of its states"
    " stay apart while radii do not grow, margins and norms stay level, and an error that enters is"
    " forgotten. Accuracy on random strings does not see a string that is drawn once in millions:"
    " what lrbench certify says stands first. Extraction decides nothing."
)
FIGURES = "Positions are those of the same random strings, 1 the first symbol."
MOST_CURVES = len(COLOURS)
MOST_CLASSES, MOST_NAMED = 60, 24  # of a picture of who is taken for whom; of those with names
MOST_SYMBOLS, NAMED = 400, 40  # of a wrong string that is drawn; of one whose symbols are named


def page(found: Diagnosis) -> str:
    """Return the page. Raises UserError where matplotlib is not installed."""
    drawn = list(figures(found))
    return to_html(
        Page(
            title=found.title,
            about=(*found.about, "made by lrbench diagnose"),
            tables=tables(found),
            figures=drawn,
            lead=in_short(found),
            how=HOW,
            figures_how=FIGURES,
        )
    )


def figures(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield (caption, SVG) of each picture there is something for."""
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context(settings()):
        survey = found.survey
        if 0 < len(found.wrong) <= MOST_SYMBOLS:
            caption = (
                "Margin of the right answer along the wrong string that certify found, in logits"
            )
            yield caption, _drawn(lambda axes: _walk(axes, found.wrong))
        yield "Right answers, share of those asked", _drawn(lambda axes: _accuracy(axes, survey))
        yield from _confusions(found)
        if any(one.mean_margin is not None for one in survey.bins):
            caption = "Margin of the right answer, in logits: mean and least; wrong below zero"
            yield caption, _drawn(lambda axes: _margins(axes, survey))
        if survey.parts:
            yield "Mean norm of each part of the state", _drawn(lambda axes: _norms(axes, survey))
            yield from _clouds(found)
        linear, grown = found.linear, found.growth
        if not isinstance(linear, str) and any(one.slow for one in linear):
            caption = (
                "Eigenvalues above 0.97 of each symbol's matrix; rings: roots of unity of order"
                f" {found.order}"
            )
            yield caption, _drawn(lambda axes: _circle(axes, found, linear), square=True)
        if not isinstance(grown, str):
            caption = "2-norm of products of Jacobians along words, mean; below one errors fade"
            yield caption, _drawn(lambda axes: _fading(axes, found, grown))


def _drawn(draw: Callable[[Axes], None], square: bool = False) -> str:
    from matplotlib.figure import Figure

    size = (HEIGHT * 1.35, HEIGHT * 1.35) if square else (WIDTH, HEIGHT)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    draw(axes)
    return _svg(figure)


def _svg(figure: Figure) -> str:
    return saved(figure, ("svg",))["svg"].decode()


def _positions(axes: Axes, survey: Survey) -> list[float]:
    """Make the axis of positions; return where each bin stands, the last of its positions."""
    ticks = [float(one.last) for one in survey.bins]
    log_ticks(axes, ticks[0] / 1.15, ticks[-1] * 1.15)
    axes.set_xlabel("position (log scale)")
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.5)
    axes.set_axisbelow(True)
    return ticks


def _walk(axes: Axes, wrong: Sequence[tuple[str, float | None]]) -> None:
    margins = [np.nan if margin is None else margin for _, margin in wrong]
    ticks = range(1, len(wrong) + 1)
    axes.plot(ticks, margins, color=COLOURS[0], marker="o", markersize=2.4, linewidth=1)
    axes.axhline(0, color=INK, linewidth=0.6)
    if len(wrong) <= NAMED:
        axes.set_xticks(ticks, [drawable(symbol) for symbol, _ in wrong])
    axes.set_xlabel("the string, symbol by symbol")
    axes.set_ylabel("margin, logits")


def _accuracy(axes: Axes, survey: Survey) -> None:
    ticks = _positions(axes, survey)
    shares = [one.right / one.asked if one.asked else np.nan for one in survey.bins]
    axes.plot(ticks, shares, color=COLOURS[0], linewidth=1.5)
    axes.set_ylim(-0.03, 1.04)
    axes.set_ylabel("accuracy")


def _confusions(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """What is given for each right answer, at the first and the last length."""
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    lengths, classes = found.survey.lengths, len(found.classes)
    if classes > MOST_CLASSES:
        return
    shown = list(dict.fromkeys((lengths[0], lengths[-1])))
    figure = Figure(figsize=(WIDTH * len(shown) * 0.8, HEIGHT * 1.5), layout="constrained")
    all_axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    names = [drawable(name) for name in found.classes]
    for axes, seen in zip(all_axes, shown, strict=True):
        asked = [0] * classes
        for right, _, count in seen.confusion:
            asked[right] += count
        finite = [row for row in seen.confusion if row[1] != NOT_FINITE]
        corners = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
        cells = [[(given + x, right + y) for x, y in corners] for right, given, _ in finite]
        shares = np.array([count / asked[right] for right, _, count in finite])
        drawn = PolyCollection(cells, array=shares, cmap="Blues", clim=(0, 1), edgecolors="none")
        axes.add_collection(drawn)
        axes.set_xlim(-0.5, classes - 0.5)
        axes.set_ylim(classes - 0.5, -0.5)
        axes.set_aspect("equal")
        axes.set_title(f"up to position {seen.length:,}")
        axes.set_xlabel("given")
        if classes <= MOST_NAMED:
            axes.set_xticks(range(classes), names, rotation=90)
            axes.set_yticks(range(classes), names)
            axes.tick_params(labelsize=6.5)
    all_axes[0].set_ylabel("right answer")
    figure.colorbar(drawn, ax=list(all_axes), label="share of its row", shrink=0.8)
    yield "Which answer is given for each right one: shares of a row add up to one", _svg(figure)


def _margins(axes: Axes, survey: Survey) -> None:
    ticks = _positions(axes, survey)
    for place, name in enumerate(("mean", "least")):
        values = [one.least_margin if place else one.mean_margin for one in survey.bins]
        shown = [np.nan if value is None else value for value in values]
        axes.plot(ticks, shown, color=COLOURS[place], linewidth=1.5, label=name)
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_ylabel("margin, logits")
    axes.legend()


def _norms(axes: Axes, survey: Survey) -> None:
    ticks = _positions(axes, survey)
    for place, name in enumerate(survey.parts[:MOST_CURVES]):
        values = [one.norms[place] for one in survey.bins]
        finite = [value if np.isfinite(value) else np.nan for value in values]
        axes.plot(ticks, finite, color=COLOURS[place], linewidth=1.5, label=name)
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top)
    axes.set_ylabel("norm")
    if len(survey.parts) > 1:
        axes.legend()


def _clouds(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """The last layer's states at the first and the last length, in the plane of the first."""
    from matplotlib.figure import Figure

    lengths = found.survey.lengths
    seen = [one for one in dict.fromkeys((lengths[0], lengths[-1])) if one.picture]
    if not seen:
        return
    figure = Figure(figsize=(WIDTH * len(seen) * 0.8, HEIGHT * 1.2), layout="constrained")
    all_axes = figure.subplots(1, len(seen), squeeze=False, sharex=True, sharey=True)[0]
    for axes, one in zip(all_axes, seen, strict=True):
        states = sorted({q for _, _, q in one.picture})
        for q in states:
            points = np.array([(x, y) for x, y, at in one.picture if at == q])
            colour, marker = COLOURS[q % len(COLOURS)], MARKERS[q // len(COLOURS) % len(MARKERS)]
            look: dict[str, Any] = {"linestyle": "", "marker": marker, "markersize": 2.2, "mew": 0}
            axes.plot(*points.T, color=colour, label=drawable(found.states[q]), **look)
        axes.set_title(f"up to position {one.length:,}")
        axes.set_aspect("equal", adjustable="box")
        axes.tick_params(labelsize=6.5)
    if len(found.states) <= MOST_CURVES:
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right upper")
    caption = (
        "States of the last layer in the plane of their two widest directions at"
        f" {found.survey.lengths[0].length:,}; a colour a state of the task"
    )
    yield caption, _svg(figure)


def _circle(axes: Axes, found: Diagnosis, linear: Sequence[Spectrum]) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=0.6)
    roots = np.exp(2j * np.pi * np.arange(found.order) / found.order)
    ring: dict[str, Any] = {
        "linestyle": "",
        "marker": "o",
        "markersize": 8,
        "mfc": "none",
        "mec": GREY,
    }
    axes.plot(roots.real, roots.imag, **ring)
    for place, one in enumerate(linear[:MOST_CURVES]):
        values = np.array(one.slow)
        look: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 8 - place, "mew": 0}
        name = drawable(found.symbols[one.symbol])
        axes.plot(values.real, values.imag, color=COLOURS[place], label=name, **look)
    axes.set_aspect("equal")
    axes.legend(loc="center", title="symbol", title_fontsize=7)


def _fading(axes: Axes, found: Diagnosis, grown: Sequence[Growth]) -> None:
    shown = [one for one in grown if one.symbol is not None and len(one.norm) > 1]
    for place, one in enumerate(shown[: MOST_CURVES - 1]):
        assert one.symbol is not None
        name = f"{drawable(found.symbols[one.symbol])} repeated"
        axes.plot(
            WORD_LENGTHS[: len(one.norm)], one.norm, color=COLOURS[place], linewidth=1, label=name
        )
    for one in grown:
        if one.symbol is None:
            axes.plot(
                WORD_LENGTHS[: len(one.norm)], one.norm, color=INK, linewidth=1.8, label="random"
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [10.0**e for e in range(-12, 13) if low <= 10.0**e <= high] + [0.5, 2]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(low, high)
    axes.set_xticks(WORD_LENGTHS, [str(n) for n in WORD_LENGTHS])
    axes.minorticks_off()
    axes.axhline(1, color=GREY, linewidth=0.6)
    axes.set_xlabel("symbols of the word")
    axes.set_ylabel("2-norm")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
