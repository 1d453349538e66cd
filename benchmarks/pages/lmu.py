"""results/lmu_speed: training steps of Legendre memory units, Chilkuri & Eliasmith 2021."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pages.figure import Plot
from benchmarks.pages.table import Compared, MeasuredTable, RawOutput, Row, Settings
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table

ORIGINAL = ("lmu_loop", "lmu")  # the original, by autograd's backward and by ours
LOOPS = ("lti_loop", "lti")  # the linear recurrence step by step: the first that was measured
COLUMNS = ("network", "length", "batch", "side", "round", "seconds")


def rows(raw: Sequence[RawOutput]) -> list[dict[str, Any]]:
    """Return a row a side and round at the paper's length, and one a side at each other length.

    The curve has medians of rounds only, so its rows have no round.
    """
    found = []
    for record in raw:
        for name, network in (_networks(record)).items():
            sizes = network["sizes"]
            shared = {"network": name, "length": sizes["length"], "batch": sizes["batch"]}
            for side, rounds in network["rounds"].items():
                for place, seconds in enumerate(rounds):
                    found.append({**shared, "side": side, "round": place, "seconds": seconds})
    for record in raw:
        if record.name.endswith(".csv"):
            found += [{**row, "round": ""} for row in csv.DictReader(record.content.splitlines())]
    return found


def further(raw: Sequence[RawOutput]) -> dict[str, Any]:
    """Return the sizes of the networks, with the paper's speed-up and the side it is about."""
    sizes = [(n, net["sizes"]) for record in raw for n, net in _networks(record).items()]
    return {"networks": dict(sizes)}


def tables(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Table]:
    """Return the table of each network, and the speed-ups by length."""
    made = []
    for name, sizes in settings["networks"].items():
        measured = [row for row in rows if row["network"] == name and row["round"]]
        sides = dict.fromkeys(row["side"] for row in measured)
        lines = tuple(_line(measured, side, sizes) for side in sides)
        titles = ("ms", "times lmu_loop", "paper", "times lmu", "in single rounds")
        columns = (Column("side", right=False), *map(Column, titles))
        title = f"{name}: length {sizes['length']:,}, batch {sizes['batch']}"
        made.append(Table(title, columns, lines))
    return [*made, *_by_length(rows)]


def compared(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Compared]:
    """Return the speed-up of the parallel side over the original by autograd, as the paper's."""
    found = []
    for name, sizes in settings["networks"].items():
        measured = [row for row in rows if row["network"] == name and row["round"]]
        side, paper = sizes["parallel"], sizes["paper"]
        if paper and any(row["side"] == side for row in measured):
            ours = median(_ratios(measured, ORIGINAL[0], side))
            found.append(Compared(f"{name} x {side}", ours, float(paper)))
    return found


def plots(rows: Sequence[Row], settings: Settings) -> list[Plot]:
    """Return each network's speed-up over the step-by-step recurrence against length."""
    found = []
    for name in _networks_of_curve(rows):
        loop, times = _speed_ups(rows, name)
        sides = dict.fromkeys(side for side, _ in times)
        lines = {
            side: tuple(sorted((float(x), value) for (s, x), value in times.items() if s == side))
            for side in sides
        }
        caption = f"{name}: times faster than {loop}, against sequence length"
        found.append(
            Plot(f"figure_{name}", caption, "sequence length", f"times {loop}", lines, level=1.0)
        )
    return found


def _line(rows: Sequence[Row], side: str, sizes: dict[str, Any]) -> tuple[PrintedCell, ...]:
    """A side beside both originals; the paper's ratio is to the first, the range to the second."""
    ms = 1000 * median(_seconds(rows, side))
    by_loop, by_ours = (_ratios(rows, original, side) for original in ORIGINAL)
    low, high = min(by_ours), max(by_ours)
    paper = sizes["paper"] if side == sizes["parallel"] else None
    return (
        PrintedCell(side),
        PrintedCell(f"{ms:.2f}", (ms,)),
        PrintedCell(f"{median(by_loop):.2f}", (median(by_loop),)),
        PrintedCell(f"{paper:g}" if paper else MISSING),
        PrintedCell(f"{median(by_ours):.2f}", (median(by_ours),)),
        PrintedCell(f"{low:.2f} to {high:.2f}"),
    )


def _by_length(rows: Sequence[Row]) -> list[Table]:
    made = []
    for name in _networks_of_curve(rows):
        loop, times = _speed_ups(rows, name)
        lengths = sorted({length for _, length in times})
        sides = dict.fromkeys(side for side, _ in times)
        lines = tuple(
            (
                PrintedCell(side),
                *(PrintedCell(f"{times[side, x]:.2f}", (times[side, x],)) for x in lengths),
            )
            for side in sides
        )
        columns = (Column("side", right=False), *(Column(f"{length:,}") for length in lengths))
        made.append(Table(f"{name}: times faster than {loop}, by length", columns, lines))
    return made


def _speed_ups(rows: Sequence[Row], name: str) -> tuple[str, dict[tuple[str, int], float]]:
    """The step-by-step side, and how many times faster than it each other one is by length."""
    curve = {
        (row["side"], int(row["length"])): float(row["seconds"])
        for row in rows
        if row["network"] == name and not row["round"]
    }
    loop = next(side for side in LOOPS if any(side == other for other, _ in curve))
    return loop, {
        (side, length): curve[loop, length] / seconds
        for (side, length), seconds in curve.items()
        if side != loop
    }


def _networks_of_curve(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["network"] for row in rows if not row["round"]))


def _networks(record: RawOutput) -> dict[str, Any]:
    return {} if record.name.endswith(".csv") else dict(record.content["networks"])


def _ratios(rows: Sequence[Row], original: str, side: str) -> list[float]:
    pairs = zip(_seconds(rows, original), _seconds(rows, side), strict=True)
    return [slow / fast for slow, fast in pairs]


def _seconds(rows: Sequence[Row], side: str) -> list[float]:
    return [float(row["seconds"]) for row in rows if row["side"] == side]


LMU = MeasuredTable(
    title="Training steps of Legendre memory units (Chilkuri & Eliasmith 2021, Figure 1)",
    source="arXiv:2102.11417, section 4.6 and Figure 1",
    command="python -m benchmarks.lmu_speed",
    program_words=1,
    about=(
        "A step is forward, loss, backward and Adam. lmu_loop is the original network by autograd's"
        " backward, lmu the same with ours; lti_loop and lti are the linear recurrence step by step"
        " (where only the last position is read, lti stands for both); fft, chunk and final are"
        " parallel forms. Theirs was measured on a GPU (GTX 1080) in Keras: only the ratios, round"
        " by round, can be compared."
    ),
    columns=COLUMNS,
    rows=rows,
    further=further,
    tables=tables,
    compared=compared,
    plots=plots,
)
