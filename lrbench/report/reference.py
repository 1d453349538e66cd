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
RULES = {"best": "best test accuracy seen"}  # our rule -> how the tables tell it


@dataclass(frozen=True)
class Reference:
    """One printed number: `text` keeps its precision, `length` is the test length it belongs to.

    `rule` is ours (None where the table tells none) and `trials` how many runs were averaged.
    """

    text: str
    value: float
    length: int | None
    source: str
    aggregation: str
    model: str = ""
    rule: str | None = None
    trials: int | None = None

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


def printed(
    task: str, modulus: int | None, protocol: str, folder: Path | None = None
) -> list[Reference]:
    """Return every model's accuracy that the paper prints for a task, in the paper's order."""
    if protocol not in TABLES or task not in TASKS or modulus is None:
        return []
    paper, table = TABLES[protocol]
    return [
        _reference(row)
        for row in load(folder or reference_dir())
        if (row.get("table"), row.get("task")) == (table, f"{TASKS[task]}({modulus})")
        and row["paper"].startswith(paper)
        and "accuracy" in row["metric"]
    ]


def lookup(
    task: str,
    modulus: int | None,
    model: str,
    protocol: str,
    folder: Path | None = None,
    row: str | None = None,
) -> Reference | None:
    """Return the paper's accuracy for this cell, or None where no paper printed one.

    `row` is the paper's name of the model; without it `model` is looked for by its own.
    """
    found = printed(task, modulus, protocol, folder)
    return next((number for number in found if is_row(number.model, row or model)), None)


def is_row(printed_model: str, model: str) -> bool:
    """Tell whether a row of the paper is `model`: by our list, or by its letters and digits."""
    return plain_name(printed_model) == plain_name(MODELS.get(model, model))


def plain_name(model: str) -> str:
    """Return a name without what spellings differ in: 'Liquid-S4' and 'liquid_s4' are one."""
    return re.sub(r"[\W_]", "", model.lower())


def lookup_run(result: dict[str, Any], folder: Path | None = None) -> Reference | None:
    """Return the paper's accuracy for the cell that `result` (a result.json) belongs to."""
    task = result.get("config", {}).get("task")
    modulus = task.get("modulus") if isinstance(task, dict) else None
    return lookup(result["task"], modulus, result["model"], result["protocol"], folder)


def _reference(row: dict[str, str]) -> Reference:
    length = re.search(r"length (\d+)", row["split"])
    trials = re.search(r"mean of (\d+)", row["aggregation"])
    return Reference(
        text=row["value"],
        value=float(row["value"]),
        length=int(length.group(1)) if length else None,
        source=f"{row['paper']}, {row['table']}",
        aggregation=row["aggregation"],
        model=row["model"],
        rule=next((rule for rule, told in RULES.items() if told in row["aggregation"]), None),
        trials=int(trials.group(1)) if trials else None,
    )
