"""results/fan2024_speed: the loop against the parallel scan, section 4.5 of Fan et al. 2024."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pages.table import Compared, MeasuredTable, RawOutput, Row, Settings
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table
from lrbench.report.paper.times import Printed, speeds

LOOP, PSCAN = "sequential", "pscan"
NOTE = (
    "seconds: median of the rounds; loop/pscan: of the ratios of each round; above 1 the parallel"
    " scan is faster"
)


def rows(raw: Sequence[RawOutput]) -> list[dict[str, Any]]:
    """Return a row for each setting, algorithm and round, with compiled loops and without.

    Of several files of one device and kind of loops the newest counts.
    """
    newest = {_loops(record): record.content["settings"] for record in raw}
    return [
        {
            **{"loops": loops, "setting": setting["paper"], "block": setting["block"]},
            **{"length": setting["length"], "training": "yes" if setting["training"] else "no"},
            **{"algorithm": name, "round": place, "seconds": seconds},
        }
        for loops in sorted(newest)
        for row in newest[loops]
        for setting in [row["setting"]]
        for name, rounds in row["rounds"].items()
        for place, seconds in enumerate(rounds)
    ]


def _loops(record: RawOutput) -> str:
    """Which loops there were: compiled or plain ones of a CPU, or those of another device."""
    device = str(record.content["options"]["device"])
    compiled = record.content["environment"].get("compiled")
    return device if device != "cpu" else "compiled" if compiled else "plain"


def tables(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Table]:
    """Return a table each of compiled and plain loops, as `lrbench bench fan2024_speed` prints it.

    The range of the ratio is added.
    """
    made = []
    for loops, there in _by_loops(rows):
        names = dict.fromkeys(row["setting"] for row in there)
        lines = tuple(_line(there, setting, references) for setting in names)
        titles = ("loop s", "pscan s", "loop/pscan", "range", "paper: loop s", "pscan s", "ratio")
        columns = (Column("setting", right=False), *map(Column, titles))
        made.append(Table(f"Loop against parallel scan: {loops}", columns, lines, (NOTE,)))
    return made


def compared(rows: Sequence[Row], settings: Settings, references: Path | None) -> list[Compared]:
    """Return each setting's ratio beside the paper's."""
    found = []
    for loops, there in _by_loops(rows):
        for setting in dict.fromkeys(row["setting"] for row in there):
            paper = _printed(setting, references)
            if paper:
                ours = median(_ratios(there, setting))
                found.append(Compared(f"{setting} x {loops}", ours, paper.ratio))
    return found


def _line(rows: Sequence[Row], setting: str, references: Path | None) -> tuple[PrintedCell, ...]:
    ratios, paper = _ratios(rows, setting), _printed(setting, references)
    ours = [median(_seconds(rows, setting, name)) for name in (LOOP, PSCAN)]
    theirs = (paper.sequential, paper.pscan, f"{paper.ratio:.2f}") if paper else (MISSING,) * 3
    return (
        PrintedCell(setting),
        *(PrintedCell(f"{seconds:.4f}", (seconds,)) for seconds in ours),
        PrintedCell(f"{median(ratios):.4f}", (median(ratios),)),
        PrintedCell(f"{min(ratios):.4f} to {max(ratios):.4f}"),
        *map(PrintedCell, theirs),
    )


def _by_loops(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for loops in dict.fromkeys(row["loops"] for row in rows):
        yield loops, [row for row in rows if row["loops"] == loops]


def _ratios(rows: Sequence[Row], setting: str) -> list[float]:
    pairs = zip(_seconds(rows, setting, LOOP), _seconds(rows, setting, PSCAN), strict=True)
    return [loop / pscan for loop, pscan in pairs]


def _seconds(rows: Sequence[Row], setting: str, algorithm: str) -> list[float]:
    mine = [row for row in rows if (row["setting"], row["algorithm"]) == (setting, algorithm)]
    return [float(row["seconds"]) for row in mine]


def _printed(setting: str, references: Path | None) -> Printed | None:
    return next((row for row in speeds(references) if row.setting.startswith(setting)), None)


FAN2024 = MeasuredTable(
    title="The loop against the parallel scan (Fan et al. 2024, section 4.5)",
    source="arXiv:2309.07412v2, section 4.5",
    command="lrbench bench fan2024_speed",
    program_words=3,
    about=(
        "Theirs are seconds on a GPU (Quadro RTX 8000) for an instance that is not defined, ours"
        " seconds for a batch of 128 strings of Sum(5): only the ratios can be compared."
    ),
    columns=("loops", "setting", "block", "length", "training", "algorithm", "round", "seconds"),
    rows=rows,
    tables=tables,
    compared=compared,
)
