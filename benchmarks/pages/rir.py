"""results/rir_table1: time and memory of encoders, Table 1 of Ray Chowdhury & Caragea 2023."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pages.figure import Plot, Points
from benchmarks.pages.table import Compared, MeasuredTable, RawOutput, Row, Settings
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table
from lrbench.report.paper.times import UNIT, printed_ratio, times_unit, tree_speeds

MEBIBYTE = 2**20
COLUMNS = ("model", "paper", "lengths", "string", "seconds", "unit_seconds", "peak_bytes", "failed")


def rows(raw: Sequence[RawOutput]) -> list[dict[str, Any]]:
    """Return a row for each string of each cell, or one that says why it failed.

    Of a cell in several files the newest counts, so that a table may be measured in parts; models
    stand in the order in which they were first measured.
    """
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for record in raw:
        for cell in record.content["cells"]:
            newest[cell["lengths"], cell["model"]] = cell
    lengths, models = (list(dict.fromkeys(key[i] for key in newest)) for i in (0, 1))
    ordered = sorted(newest, key=lambda at: (lengths.index(at[0]), models.index(at[1])))
    found: list[dict[str, Any]] = []
    for cell in (newest[key] for key in ordered):
        shared = {name: cell[name] for name in ("model", "paper", "lengths", "failed")}
        shared["peak_bytes"] = cell["peak_bytes"]
        passes = zip(cell["passes"], cell["unit_passes"], strict=True)
        strings = [
            {**shared, "string": place, "seconds": mine, "unit_seconds": unit}
            for place, (mine, unit) in enumerate(passes)
        ]
        found += strings or [shared]
    return found


def tables(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Table]:
    """Return a table for each range of lengths, as `lrbench bench rir_table1` prints it."""
    printed = tree_speeds(references)
    made = []
    for lengths in dict.fromkeys(row["lengths"] for row in rows):
        lines = []
        for model, mine in _cells(rows, lengths):
            time, memory = printed_ratio(printed, mine[0]["paper"], lengths)
            lines.append(
                (
                    *(
                        PrintedCell(model),
                        PrintedCell(str(sum(bool(row["seconds"]) for row in mine))),
                    ),
                    *_ours(mine),
                    PrintedCell(time),
                    PrintedCell(f"{_mebibytes(mine):,.0f}" if mine[0]["peak_bytes"] else MISSING),
                    PrintedCell(memory),
                )
            )
        titles = ("strings", "s a string", "times RNN-GRC", "paper", "MiB", "paper: GB")
        columns = (Column("model", right=False), *map(Column, titles))
        made.append(Table(f"{lengths} tokens", columns, tuple(lines)))
    return made


def compared(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Compared]:
    """Return each cell's time over RNN-GRC's beside the paper's, but for RNN-GRC's own."""
    printed = tree_speeds(references)
    found = []
    for lengths in dict.fromkeys(row["lengths"] for row in rows):
        for model, mine in _cells(rows, lengths):
            theirs = times_unit(printed, mine[0]["paper"], lengths)
            if theirs is not None and mine[0]["seconds"] and mine[0]["paper"] != UNIT:
                found.append(Compared(f"{lengths} x {model}", _ratio(mine), theirs))
    return found


def plots(rows: Sequence[Row], settings: Settings) -> list[Plot]:
    """Return time and memory against length."""
    lengths = "length, in tokens (middle of the range)"
    time = _lines(rows, "seconds", lambda mine: _mean([float(row["seconds"]) for row in mine]))
    memory = _lines(rows, "peak_bytes", _mebibytes)
    found = [
        Plot("figure_time", "Seconds a string against length", lengths, "s a string", time),
        Plot("figure_memory", "Memory of a string against length", lengths, "MiB", memory),
    ]
    return [plot for plot in found if plot.lines]


def _lines(
    rows: Sequence[Row], needed: str, read: Callable[[list[Row]], float]
) -> dict[str, Points]:
    """Each model's points; a cell without the number, or with none above zero, has no point."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for lengths in dict.fromkeys(row["lengths"] for row in rows):
        low, high = map(int, lengths.split("-"))
        for model, mine in _cells(rows, lengths):
            if mine[0][needed] and (value := read(mine)) > 0:
                lines.setdefault(model, []).append(((low + high) / 2, value))
    return {model: tuple(sorted(points)) for model, points in lines.items()}


def _cells(rows: Sequence[Row], lengths: str) -> Iterator[tuple[str, list[Row]]]:
    there = [row for row in rows if row["lengths"] == lengths]
    for model in dict.fromkeys(row["model"] for row in there):
        yield model, [row for row in there if row["model"] == model]


def _ours(mine: list[Row]) -> tuple[PrintedCell, PrintedCell]:
    if not mine[0]["seconds"]:
        return PrintedCell(mine[0]["failed"]), PrintedCell()
    mean = _mean([float(row["seconds"]) for row in mine])
    return PrintedCell(f"{mean:.3f}", (mean,)), PrintedCell(f"{_ratio(mine):.2f}", (_ratio(mine),))


def _ratio(mine: list[Row]) -> float:
    return median(float(row["seconds"]) / float(row["unit_seconds"]) for row in mine)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mebibytes(mine: list[Row]) -> float:
    return float(mine[0]["peak_bytes"]) / MEBIBYTE


RIR = MeasuredTable(
    title="Time and memory of encoders (Ray Chowdhury & Caragea 2023, Table 1)",
    source="arXiv:2311.04449, Table 1",
    command="lrbench bench rir_table1",
    program_words=3,
    about=(
        "Training on single strings of ListOps. Theirs are minutes for 100 strings and gigabytes on"
        " a GPU (RTX A6000); ours are seconds a string, and what the longest string adds to a"
        " process. Each model takes turns with RNN-GRC, so that times RNN-GRC, the median over"
        " strings, can be compared between our models. Some cells have fewer strings. OOM:"
        " the paper's GPU had not enough memory."
    ),
    columns=COLUMNS,
    rows=rows,
    tables=tables,
    compared=compared,
    plots=plots,
)
