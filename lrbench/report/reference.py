"""The papers' printed numbers, read from data/reference/*.csv and never typed into code."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.metrics import ACCURACY, Metric, metric_among

# Our names -> the names in the tables. The values come from the files alone.
TABLES = {"fan2024": ("Fan2024-LRNN", "Table 2")}
TASKS = {"sum": "Sum", "even_pair": "EvenPair", "mod_arith": "ModArith"}
MODELS = {
    "blockdiag": "Ours (block-diagonal LRNN)",
    "blockdiag_release": "Ours (block-diagonal LRNN)",
    "s4": "S4",
    "s4d": "S4D",
    "liquid_s4": "Liquid-S4",
    "lmu_parallel": "Our Model",
}
SIGNALS = {  # tasks of other papers, which have no modulus: paper, table, task
    "mackey_glass": ("Chilkuri2021-ParallelLMU", "Table 3", "Mackey-Glass"),
    "psmnist": ("Chilkuri2021-ParallelLMU", "Table 2", "psMNIST"),
}
SETTINGS = {  # our key -> the setting, in column `metric`, that makes a signal task what it is
    "task.horizon": "prediction horizon",
    "protocol.train_length": "sequence length",
}
RULES = {  # our rule -> how the tables tell it
    "best": "best test accuracy seen",
    "last": "after 500 epochs",
    "id": "chosen on the validation split",
}


@dataclass(frozen=True)
class Reference:
    """One printed number: `text` keeps its precision, `length` is the test length it belongs to.

    `rule` is ours (None where the table tells none) and `trials` how many runs were averaged. A
    percentage is kept as a share, with the digits printed; so is the `spread` beside it, if any.
    """

    text: str
    value: float
    length: int | None
    source: str
    aggregation: str
    model: str = ""
    rule: str | None = None
    trials: int | None = None
    metric: Metric = ACCURACY
    spread: str = ""

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
    """Return every model's number that the paper prints for a task, in the paper's order."""
    place = _place(task, modulus, protocol)
    if place is None:
        return []
    paper, table, name = place
    return [
        _reference(row)
        for row in load(folder or reference_dir())
        if (row.get("table"), row.get("task")) == (table, name)
        and row["paper"].startswith(paper)
        and ("accuracy" in row["metric"] or row["metric"] == "NRMSE")
    ]


def faithful(task: str, settings: Mapping[str, Any], folder: Path | None = None) -> bool:
    """Tell whether a run's flat settings are what a paper tells of a signal task."""
    if task not in SIGNALS:
        return True
    paper, _, name = SIGNALS[task]
    told = {
        row["metric"]: row["value"]
        for row in load(folder or reference_dir())
        if row["paper"].startswith(paper) and (row["split"], row["task"]) == ("setting", name)
    }
    return all(
        str(settings[key]) == told[metric]
        for key, metric in SETTINGS.items()
        if key in settings and metric in told
    )


def _place(task: str, modulus: int | None, protocol: str) -> tuple[str, str, str] | None:
    """Return paper, table and the task's name there; None where no paper has it."""
    if protocol not in TABLES:
        return None
    if task in SIGNALS:
        return SIGNALS[task]
    if task not in TASKS or modulus is None:
        return None
    return (*TABLES[protocol], f"{TASKS[task]}({modulus})")


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
    """Return the paper's number for the cell that `result` (a result.json) belongs to."""
    config = result.get("config", {})
    nodes = {name: config.get(name) for name in ("task", "protocol")}
    settings = {
        f"{name}.{key}": value
        for name, node in nodes.items()
        if isinstance(node, dict)
        for key, value in node.items()
    }
    if not faithful(result["task"], settings, folder):
        return None
    modulus = settings.get("task.modulus")
    return lookup(result["task"], modulus, result["model"], result["protocol"], folder)


def _reference(row: dict[str, str]) -> Reference:
    length = re.search(r"length (\d+)", row["split"])
    trials = re.search(r"mean of (\d+)", row["aggregation"])
    text = row["value"]
    if row.get("unit") == "percent":
        text = str(Decimal(text).scaleb(-2))
    return Reference(
        text=text,
        value=float(text),
        length=int(length.group(1)) if length else None,
        source=f"{row['paper']}, {row['table']}",
        aggregation=row["aggregation"],
        model=row["model"],
        rule=next((rule for rule, told in RULES.items() if told in row["aggregation"]), None),
        trials=int(trials.group(1)) if trials else None,
        metric=metric_among([row["metric"].lower()]),
    )
