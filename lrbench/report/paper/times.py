"""Times and memory that papers print, from the reference tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lrbench.report.paper.reference import load, reference_dir

SCAN_PAPER, SCAN_SECTION = "Fan2024-LRNN", "Section 4.5"


@dataclass(frozen=True)
class Printed:
    """Seconds of the loop and of the parallel scan in one setting, as printed."""

    setting: str
    sequential: str
    pscan: str

    @property
    def ratio(self) -> float:
        """How many times as long the loop takes."""
        return float(self.sequential) / float(self.pscan)


def speeds(folder: Path | None = None) -> list[Printed]:
    """Return the paper's settings, in its order."""
    rows = [
        row
        for row in load(folder or reference_dir())
        if row["paper"].startswith(SCAN_PAPER) and (row.get("table") or "").startswith(SCAN_SECTION)
    ]
    by_setting: dict[str, dict[str, str]] = {}
    for row in rows:
        by_setting.setdefault(row["split"], {})[row["model"]] = row["value"]
    return [
        Printed(setting, found["Sequential"], found["PScan"])
        for setting, found in by_setting.items()
    ]


TREE_PAPER, TREE_TABLE = "rir2023", "1"
UNIT = "RNN-GRC"
OUT_OF_MEMORY, NOT_THERE = "OOM", "-"


@dataclass(frozen=True)
class PrintedCost:
    """Minutes for 100 strings and gigabytes, as printed; empty where memory did not suffice."""

    time: str = ""
    peak_memory: str = ""


def tree_speeds(folder: Path | None = None) -> dict[tuple[str, str], PrintedCost]:
    """Return the costs by the paper's model and its range of lengths, such as "200-250"."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in load(folder or reference_dir()):
        if (row["paper"], row.get("table")) == (TREE_PAPER, TREE_TABLE):
            lengths = row["split"].removeprefix("len").partition("(")[0]
            found.setdefault((row["model"], lengths), {})[row["metric"]] = row["value"] or ""
    return {place: PrintedCost(**values) for place, values in found.items()}


def printed_ratio(
    printed: dict[tuple[str, str], PrintedCost], model: str, lengths: str
) -> tuple[str, str]:
    """Return how the printed time over that of RNN-GRC and the memory are said in a table."""
    cost = printed.get((model, lengths))
    if cost is None:
        return NOT_THERE, NOT_THERE
    ratio = times_unit(printed, model, lengths)
    time = OUT_OF_MEMORY if ratio is None else f"{ratio:.2f}"
    return time, cost.peak_memory or OUT_OF_MEMORY


def times_unit(
    printed: dict[tuple[str, str], PrintedCost], model: str, lengths: str
) -> float | None:
    """Return the printed time over that of RNN-GRC; None if one of them is not there."""
    mine = printed.get((model, lengths), PrintedCost()).time
    unit = printed.get((UNIT, lengths), PrintedCost()).time
    return float(mine) / float(unit) if mine and unit else None
