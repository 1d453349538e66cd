"""A drawing has the same bytes whatever the last bits of its layout were."""

from __future__ import annotations

import io
import random
import re

from lrbench.report.figures.axes import STYLE
from lrbench.report.figures.portable_svg import portable_svg

NUMBER = re.compile(r"(?<=[\s\"(])-?\d+(?:\.\d+)?")
PLACED = re.compile(r" (?:d|x|y)=\"[^\"]*\"|translate\([^)]*\)")
HASHED = re.compile(r"(?<=[\"#])([mp])[0-9a-f]{10}(?=[\")])")
REFERENCE, NAME = re.compile(r'(?:url\(#|href="#)([^)"]+)'), re.compile(r' id="([^"]+)"')


def drawn() -> str:
    """A drawing as matplotlib writes it: two panels, so two clip paths, and markers."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}):
        figure = Figure(figsize=(4, 2), layout="constrained")
        for axes in figure.subplots(1, 2):
            axes.plot([0.5, 1, 2], [1, 0.25, 0.125], marker="o")
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def on_another_processor(svg: str, seed: int) -> str:
    """The same drawing with other last digits, and so with other hashes."""
    chance = random.Random(seed)
    hashes: dict[str, str] = {}

    def moved(found: re.Match[str]) -> str:
        return f"{float(found[0]) + chance.choice((-1e-6, 0, 1e-6)):.6f}"

    def renamed(found: re.Match[str]) -> str:
        return hashes.setdefault(found[0], f"{found[1]}{chance.getrandbits(40):010x}")

    return HASHED.sub(renamed, PLACED.sub(lambda found: NUMBER.sub(moved, found[0]), svg))


def test_last_digits_and_hashes_do_not_matter() -> None:
    ours = drawn()
    once = portable_svg(ours.encode())
    for seed in range(5):
        theirs = on_another_processor(ours, seed)
        assert theirs != ours
        assert portable_svg(theirs.encode()) == once


def test_it_is_still_the_same_drawing() -> None:
    ours, made = drawn(), portable_svg(drawn().encode()).decode()
    before, after = ([float(n) for n in NUMBER.findall(HASHED.sub("", t))] for t in (ours, made))
    assert len(before) == len(after) > 500
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 1e-3
    names = NAME.findall(made)
    assert len(set(names)) == len(names)
    assert set(REFERENCE.findall(made)) <= set(names)
    assert {"p1", "p2", "m1"} <= set(names)
    assert not HASHED.search(made)
    assert "scale(0.015625)" in made
