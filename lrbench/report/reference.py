"""The papers' printed numbers, read from data/reference/*.csv and never typed into code."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lrbench.errors import UserError

# Our names -> the names in the tables. The values come from the files alone.
TABLES = {"fan2024": ("Fan2024-LRNN", "Table 2")}
TASKS = {"sum": "Sum", "even_pair": "EvenPair", "mod_arith": "ModArith"}
MODELS = {
    "blockdiag": "Ours (block-diagonal LRNN)",
    "blockdiag_release": "Ours (block-diagonal LRNN)",
}


@dataclass(frozen=True)
class Reference:
    """One printed number: `text` keeps its precision, `length` is the test length it belongs to."""

    text: str
    value: float
    length: int | None
    source: str
    aggregation: str

    def at(self, length: int | None) -> str:
        """Return the number as printed if it was measured at `length`, else '-'."""
        return self.text if length == self.length else "-"


def reference_dir() -> Path:
    """Return the folder of reference tables: the installed package's, else the checkout's."""
    package = Path(__file__).resolve().parents[1]
    folders = [root / "data" / "reference" for root in (package, package.parent)]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise UserError(
        "the papers' reference tables are missing: no folder "
        + " or ".join(str(folder) for folder in folders)
        + "\nfix: install lrbench again, or restore data/reference in the checkout"
    )


@lru_cache(maxsize=8)
def load(folder: Path) -> tuple[dict[str, str], ...]:
    """Return every row of every CSV in `folder`, column name -> text."""
    rows: list[dict[str, str]] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows.extend(csv.DictReader(file))
    return tuple(rows)


def lookup(
    task: str, modulus: int | None, model: str, protocol: str, folder: Path | None = None
) -> Reference | None:
    """Return the paper's accuracy for this cell, or None where no paper printed one."""
    if protocol not in TABLES or task not in TASKS or model not in MODELS or modulus is None:
        return None
    paper, table = TABLES[protocol]
    wanted = (table, f"{TASKS[task]}({modulus})", MODELS[model])
    for row in load(folder or reference_dir()):
        found = (row.get("table"), row.get("task"), row.get("model"))
        if found == wanted and row["paper"].startswith(paper) and "accuracy" in row["metric"]:
            return _reference(row)
    return None


def lookup_run(result: dict[str, Any], folder: Path | None = None) -> Reference | None:
    """Return the paper's accuracy for the cell that `result` (a result.json) belongs to."""
    task = result.get("config", {}).get("task")
    modulus = task.get("modulus") if isinstance(task, dict) else None
    return lookup(result["task"], modulus, result["model"], result["protocol"], folder)


def _reference(row: dict[str, str]) -> Reference:
    length = re.search(r"length (\d+)", row["split"])
    return Reference(
        text=row["value"],
        value=float(row["value"]),
        length=int(length.group(1)) if length else None,
        source=f"{row['paper']}, {row['table']}",
        aggregation=row["aggregation"],
    )
