"""Figures: the right numbers, the same bytes each time, and names that are only names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from lrbench.errors import UserError
from lrbench.report.figures.axes import drawable, new_figure
from lrbench.report.figures.data import (
    Curve,
    DrawnRun,
    Panel,
    panels,
    pareto,
    prefix_panels,
)
from lrbench.report.figures.draw import draw, drawings
from lrbench.report.figures.panels import (
    COLOURS,
    cost_figure,
    learning_figure,
    length_figure,
    panel_costs,
    styles_of,
)
from lrbench.report.runs.collect import collect
from lrbench.report.tables.request import Request

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Write = Callable[..., Path]
B = "b" * 12


def panel(*curves: Curve) -> Panel:
    chance = ((40.0, 0.2), (500.0, 0.21))
    return Panel("sum (mod 5)", "sum", "best", (40,), 500, chance, curves, ("cpu",))


def curve(label: str, seconds: float, *accuracies: float, runs: int = 0) -> Curve:
    trials = tuple(
        DrawnRun(((40.0, 1.0), (500.0, value)), value, {"train_seconds": seconds, "steps": 1000.0})
        for value in accuracies
    )
    return Curve(label, trials, runs or len(trials))


def test_numbers_of_a_panel(runs: Path, write: Write, fail: Write) -> None:
    write(seed=0, accuracy=1.0)
    write(seed=1, accuracy=0.5)
    fail(seed=2)
    [found] = panels(collect(runs), "best")
    assert (found.title, found.slug, found.rule) == ("sum (mod 5)", "sum", "best")
    assert (found.train_lengths, found.test_length, found.devices) == ((40,), 500, ("cpu",))
    assert found.chance == ((500.0, 0.204),)
    [line] = found.curves
    assert (line.label, line.runs) == ("blockdiag", 3)
    assert [trial.by_length for trial in line.trials] == [
        ((40.0, 1.0), (500.0, 1.0), (997.0, 0.5)),
        ((40.0, 1.0), (500.0, 0.5), (997.0, 0.25)),
    ]
    assert line.mean == ((40.0, 1.0), (500.0, 0.75), (997.0, 0.375))
    assert line.centre("train_seconds") == (34.1, 0.75)
    assert line.trials[0].costs == {"train_seconds": 34.1, "steps": 2000, "parameters": 50885}


def test_looks_are_no_fresh_strings(runs: Path, write: Write) -> None:
    write(checkpoints={"best": 2000}, evaluations=[])
    assert panels(collect(runs), "best") == []


def test_the_rule_chooses_the_checkpoint(runs: Path, write: Write) -> None:
    row = {"length": 500, "split": "test", "metric": "accuracy", "n": 100, "kind": "test"}
    rows = [{**row, "which": "best", "value": 0.9}, {**row, "which": "id", "value": 0.4}]
    write(evaluations=rows)
    collection = collect(runs)
    found = {rule: panels(collection, rule)[0].curves[0].mean for rule in ("best", "id")}
    assert found == {"best": ((500.0, 0.9),), "id": ((500.0, 0.4),)}


def test_the_prefix_curve(runs: Path, write: Write) -> None:
    tested = {"length": 500, "split": "test", "metric": "accuracy", "value": 0.5}
    trained = {**tested, "length": 40, "split": "train_length", "value": 1.0}
    curve = [(1, 1.0), (2, 0.9), (16, 0.5), (500, 0.125)]
    prefixes = [
        {"length": t, "split": "positions", "metric": "prefix", "value": value}
        for t, value in curve
    ]
    common = {"n": 100, "kind": "test", "which": "best"}
    write(evaluations=[{**row, **common} for row in (trained, tested, *prefixes)])
    write(task="even_pair", fingerprint=B)  # its answers at other positions are not scored
    collection = collect(runs)
    [found] = prefix_panels(collection, "best")
    assert (found.title, found.axis, found.train_lengths) == ("sum (mod 5)", "position", (40,))
    assert (found.chance, found.test_length) == ((), None)
    [line] = found.curves
    assert line.mean == tuple((float(t), value) for t, value in curve)
    assert prefix_panels(collection, "id") == []
    [first] = [one for one in panels(collection, "best") if one.title == found.title]
    assert first.curves[0].mean == ((40.0, 1.0), (500.0, 0.5))
    names = [drawing.name for drawing in drawings(collection, Request())]
    assert [name for name in names if "prefix" in name] == ["figure_prefix_sum"]


def test_fingerprints_never_share_a_curve(runs: Path, write: Write) -> None:
    write()
    write(fingerprint=B, lr=1e-3)
    [found] = panels(collect(runs), "best")
    assert [line.label for line in found.curves] == ["blockdiag lr=0.0001", "blockdiag lr=0.001"]


def test_file_names_are_distinguished(runs: Path, write: Write) -> None:
    write()
    write(task_title="sum (mod 7)", fingerprint=B)
    write(task="even_pair", fingerprint="c" * 12)
    write(task="even_pair", fingerprint="d" * 12, protocol="mine/../x")
    found = panels(collect(runs), "best")
    slugs = ["even_pair_fan2024", "even_pair_mine_x", "sum_mod_5", "sum_mod_7"]
    assert [one.slug for one in found] == slugs
    assert found[1].title == "even_pair (mod 5), mine/../x"


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([], []),
        ([(1, 0.5)], [(1, 0.5)]),
        ([(1, 0.5), (2, 0.5), (3, 0.9), (2, 0.4)], [(1, 0.5), (3, 0.9)]),
        ([(1, 0.5), (1, 0.7), (0.5, 0.2)], [(0.5, 0.2), (1, 0.7)]),
        ([(2, 0.9), (1, 0.9)], [(1, 0.9)]),
    ],
)
def test_pareto(points: list[tuple[float, float]], front: list[tuple[float, float]]) -> None:
    assert pareto(points) == front


@pytest.mark.slow
def test_the_same_numbers_give_the_same_bytes() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    shown = [panel(curve("a", 10, 0.5, 1.0), curve("b", 20, 0.9))]
    first, second = ([*draw(shown, ("svg", "pdf"))] for _ in range(2))
    assert [one.name for one in first] == ["figure_length_sum", "figure_cost_sum"]
    assert first == second
    assert dict(matplotlib.rcParams) == before
    for one in first:
        assert one.files["pdf"].startswith(b"%PDF")
        assert b"/Type3" not in one.files["pdf"] and b"/FontFile2" in one.files["pdf"]
        assert b"CreationDate" not in one.files["pdf"] and b"dc:date" not in one.files["svg"]


def test_hostile_names_are_drawn() -> None:
    names = ["<script>alert(1)</script>", "$x_$ \\frac", "a --> b", "模型\x00", "&amp;\"'"]
    shown = [panel(*(curve(name, 1 + i, 0.5) for i, name in enumerate(names)))]
    for drawing in draw(shown, ("svg", "pdf")):
        root = ElementTree.fromstring(drawing.files["svg"])
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not tags & {"script", "text", "foreignObject", "image"}
    assert drawable("模型\x00 a_b") == "\\u6a21\\u578b\\x00 a_b"


def test_lines_marks_and_legend() -> None:
    shown = panel(curve("a", 10, 0.5, 1.0, runs=3), curve("b", 20, 0.9))
    styles = {"a": ("#000000", "o"), "b": ("#ff0000", "s")}
    figure = length_figure(shown, styles)
    [axes] = figure.axes
    assert axes.get_xscale() == "log"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["a\xa0(2 of 3)", "b\xa0(1)", "chance"]
    thin = [line for line in axes.lines if line.get_linewidth() < 0.7]
    assert [str(list(map(float, line.get_ydata()))) for line in thin] == [
        "[1.0, 0.5, nan, 1.0, 1.0, nan]"
    ]
    assert [text.get_text().strip() for text in axes.texts] == ["trained on 40"]


def test_costs_that_do_not_differ_are_not_drawn() -> None:
    shown = panel(curve("a", 10, 0.5), curve("b", 20, 0.9))
    assert list(panel_costs(shown)) == ["train_seconds"]
    [axes] = cost_figure(shown, {"a": ("#000000", "o"), "b": ("#ff0000", "s")}).axes
    front = next(line for line in axes.lines if line.get_label() == "Pareto front of the means")
    assert (list(front.get_xdata()), list(front.get_ydata())) == ([10, 20], [0.5, 0.9])
    [only] = draw([panel(curve("a", 10, 0.5))], ("svg",))
    assert only.name == "figure_length_sum"


def test_a_curve_looks_the_same_everywhere_and_unlike_its_neighbours() -> None:
    first, second = "abcdefghij", "jk"
    shown = [panel(*(curve(name, 1, 0.5) for name in names)) for names in (first, second)]
    styles = styles_of(shown)
    assert [len({styles[name] for name in names}) for names in (first, second)] == [10, 2]
    assert len({styles[name][0] for name in first[:5]}) == 5  # side by side in a panel
    assert len({styles[name][0] for name in first[5:]}) == 5


def coloured(axes: Axes) -> set[str]:
    return {line.get_color() for line in axes.lines} & set(COLOURS)


def test_at_most_seven_lines_stand_in_a_panel() -> None:
    shown = panel(*(curve(f"m{i:02}", 10 + i, 0.5) for i in range(30)))
    figure = length_figure(shown, styles_of([shown]))
    named = [
        [text.get_text() for text in legend.get_texts()]
        for axes in figure.axes
        if (legend := axes.get_legend())
    ]
    assert [len(names) for names in named] == [6, 6, 6, 6, 6]
    assert [name for names in named for name in names] == [f"m{i:02}\xa0(1)" for i in range(30)]
    assert [len(coloured(axes)) for axes in figure.axes] == [6] * 5
    [shared] = figure.legends
    assert [text.get_text() for text in shared.get_texts()] == ["chance"]


def test_one_panel_is_as_wide_as_a_column_and_has_room_for_more_ticks() -> None:
    far = DrawnRun(((40.0, 1.0), (100_003.0, 0.5)), 0.5, {"train_seconds": 1.0, "steps": 1.0})

    def ticks(curves: int) -> list[int]:
        shown = panel(*(Curve(f"m{i:02}", (far,), 1) for i in range(curves)))
        figure = length_figure(shown, styles_of([shown]))
        return [len(axes.get_xticks()) for axes in figure.axes]

    assert (ticks(1), ticks(14)) == ([6], [4, 4])


def test_what_did_not_learn_is_grey_and_named_once() -> None:
    learned = [curve("a, b", 10, 0.9), curve("c", 20, 0.8)]
    rest = [replace(curve(name, 30, 0.2), learned=False) for name in ("d", "e")]
    shown = panel(learned[0], rest[0], learned[1], rest[1])
    styles = styles_of([shown])
    assert set(styles) == {"a, b", "c"}
    for draw_it in (length_figure, cost_figure, learning_figure):
        figure = draw_it(shown, styles)
        [legend] = figure.legends
        texts = [" ".join(text.get_text().split()) for text in legend.get_texts()]
        assert texts.count("not learned, or at chance at 500: d; e") == 1
        assert not any(text.startswith(("d", "e (")) for text in texts)
    facets = [axes.get_title() or axes.get_title(loc="left") for axes in figure.axes]
    assert facets == ["a, b\xa0(1)", "c\xa0(1)", "the others (2), in grey"]
    [legend] = length_figure(panel(*learned, rest[0]), styles).legends
    assert "not learned, or at chance at 500: d" in [text.get_text() for text in legend.get_texts()]


def test_curves_that_hide_each_other_are_one_line_with_their_names() -> None:
    perfect = [curve(name, 10, 1.0) for name in ("a", "b")]
    shown = panel(*perfect, curve("c", 10, 0.9))
    figure = length_figure(shown, styles_of([shown]))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["c\xa0(1)", "1.00 at every length: a\xa0(1); b\xa0(1)", "chance"]
    alone = panel(perfect[0], curve("c", 10, 0.9))
    texts = [
        text.get_text() for text in length_figure(alone, styles_of([alone])).legends[0].get_texts()
    ]
    assert texts == ["a\xa0(1)", "c\xa0(1)", "chance"]


@pytest.mark.parametrize("seconds", [0.001, 17.3, 2000.0, 4e9])
def test_ticks_have_room(seconds: float) -> None:
    shown = panel(curve("a", seconds, 0.5), curve("b", seconds * 1.001, 0.6))
    [axes] = cost_figure(shown, {"a": ("#000000", "o"), "b": ("#ff0000", "s")}).axes
    assert len(axes.get_xticks()) >= 2
    assert len({text.get_text() for text in axes.get_xticklabels()}) == len(axes.get_xticks())


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"matplotlib.* is not installed\nfix: .*\[plot\]"):
        next(draw([panel(curve("a", 1, 0.5))], ("svg",)))


def test_panels_share_their_axis_of_accuracies() -> None:
    figure, axes = new_figure("x", 3)
    assert len(axes) == 3 and figure.get_size_inches()[0] > 6
    assert {one.get_ylim() for one in axes} == {(-0.03, 1.04)}
