"""How the papers took their numbers, and what a guesser gets at their lengths: from the CSVs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lrbench.report.reference import TABLES, TASKS, load, reference_dir

PLACES = {  # field -> column `metric` of a setting; the values come from the files alone
    "updates": "max updates",
    "look_every": "evaluation interval",
    "strings": "evaluation sequences",
    "train_length": "train length",
    "test_length": "test length",
}
MEASURED = "Measured baselines"  # column `table` of what was measured here, not printed


@dataclass(frozen=True)
class Published:
    """The protocol by which a paper took its number for one task."""

    updates: int
    look_every: int
    strings: int
    train_length: int
    test_length: int

    @property
    def looks(self) -> int:
        """How many looks the best was taken of, at most."""
        return -(-self.updates // self.look_every)


def published(
    protocol: str, task: str, modulus: int | None, folder: Path | None = None
) -> Published | None:
    """Return how the paper of `protocol` looked at a task, None where it does not say."""
    if protocol not in TABLES or task not in TASKS:
        return None
    paper, _ = TABLES[protocol]
    told = {
        row["metric"]: row["value"]
        for row in load(folder or reference_dir())
        if row["paper"].startswith(paper)
        and row["split"] == "setting"
        and row["task"] == f"{TASKS[task]}({modulus})"
    }
    if not all(metric in told for metric in PLACES.values()):
        return None
    return Published(**{name: int(told[metric]) for name, metric in PLACES.items()})


def measured_chance(
    task: str, modulus: int | None, length: int, folder: Path | None = None
) -> float | None:
    """Return the best baseline at `length` as it was measured for the tables, None if it was not.

    For a task that no run of a report has; where one has, its own measurement is used.
    """
    for row in load(folder or reference_dir()):
        wanted = (MEASURED, f"{TASKS.get(task)}({modulus})", f"extrapolation length {length}")
        if (row.get("table"), row.get("task"), row.get("split")) == wanted:
            return float(row["value"])
    return None


def printed_modulus(task: str, protocol: str, folder: Path | None = None) -> int | None:
    """Return the modulus a paper prints numbers for, None where it prints several or none."""
    if protocol not in TABLES or task not in TASKS:
        return None
    paper, table = TABLES[protocol]
    start = f"{TASKS[task]}("
    found = {
        row["task"].removeprefix(start).removesuffix(")")
        for row in load(folder or reference_dir())
        if row["paper"].startswith(paper)
        and row["table"] == table
        and row["task"].startswith(start)
    }
    moduli = [int(name) for name in found if name.isdecimal()]
    return moduli[0] if len(moduli) == 1 else None
