"""The times that Fan, Chi & Rudnicky 2024 print in section 4.5, from the reference tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lrbench.report.reference import load, reference_dir

PAPER, PLACE = "Fan2024-LRNN", "Section 4.5"


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
        if row["paper"].startswith(PAPER) and (row.get("table") or "").startswith(PLACE)
    ]
    by_setting: dict[str, dict[str, str]] = {}
    for row in rows:
        by_setting.setdefault(row["split"], {})[row["model"]] = row["value"]
    return [
        Printed(setting, found["Sequential"], found["PScan"])
        for setting, found in by_setting.items()
    ]
