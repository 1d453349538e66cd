"""The papers' printed numbers and how they were taken, from data/reference/*.csv, not from code."""

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

    @property
    def shown(self) -> str:
        """The number as printed, and what is printed behind it as its spread."""
        return f"{self.text} ± {self.spread}" if self.spread else self.text

    def at(self, length: int | None) -> str:
        """Return what is printed if it was measured at `length`, else '-'."""
        return self.shown if length == self.length else "-"


def reference_dir() -> Path:
    """Return the folder of reference tables: the installed package's, else the checkout's."""
    package = Path(__file__).resolve().parents[2]
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
    return list(_numbers(*place, folder or reference_dir()))


@lru_cache(maxsize=512)
def _numbers(paper: str, table: str, name: str, folder: Path) -> tuple[Reference, ...]:
    return tuple(
        _reference(row)
        for row in load(folder)
        if (row.get("table"), row.get("task")) == (table, name)
        and row["paper"].startswith(paper)
        and ("accuracy" in row["metric"] or row["metric"] == "NRMSE")
    )


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
