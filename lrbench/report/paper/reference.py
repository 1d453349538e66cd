"""The papers' printed numbers and how they were taken, found by our names of tasks and models.

Everything is read from data/reference/: the numbers from its *.csv, and from names/*.csv what the
papers call our tasks, splits, models, settings and rules. A column may be a task at its test length
or a split of a corpus.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from lrbench.checks import written
from lrbench.errors import UserError
from lrbench.metrics import ACCURACY, METRICS, Metric, metric_among

MEASURED = "Measured baselines"  # column `table` of what was measured here, not printed
SCALED = "scaled from "  # a unit: 0 stands for this accuracy
MODULUS = "{modulus}"  # stands in a task's name for its modulus
SIGNED = "signed"
EIGENVALUES = {"positive": "[0,1]", SIGNED: "[-1,1]"}  # a mixer's range, as papers write it
CsvRow = dict[str, str]


@dataclass(frozen=True)
class Reference:
    """One printed number: `text` keeps its precision, `length` is the test length it belongs to.

    `rule` is ours (None where the table tells none) and `trials` how many runs were averaged. A
    percentage is kept as a share, with the digits printed; so is the `spread` beside it, if any.
    `unit` is the one that is printed.
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
    unit: str = ""

    @property
    def turned(self) -> str:
        """In which way the number is another one than is printed, for a legend."""
        if self.unit == "percent":
            return ", percentages as shares"
        scaled = ", accuracies turned back from a scale on which chance is 0"
        return scaled if self.unit.startswith(SCALED) else ""

    @property
    def shown(self) -> str:
        """The number as printed, and what is printed behind it as its spread."""
        return f"{self.text} ± {self.spread}" if self.spread else self.text

    def at(self, length: int | None) -> str:
        """Return what is printed if it was measured at `length`, else '-'."""
        return self.shown if length == self.length else "-"

    def is_of(self, model: str) -> bool:
        """Tell whether its row is `model`: by names/models.csv, or by its letters and digits."""
        listed = (
            row["model"]
            for row in names("models")
            if row["lrbench_model"] == model and self.source.startswith(row["paper"])
        )
        return plain_name(self.model) == plain_name(next(listed, model))


@dataclass(frozen=True)
class Split:
    """A split of a task, asked of models that were trained on `trained_on`."""

    task: str
    name: str
    trained_on: str = "train"

    @property
    def title(self) -> str:
        """What a heading says."""
        usual = self.trained_on in ("train", f"{self.name.partition('_')[0]}_train")
        return self.name if usual else f"{self.name}, trained on {self.trained_on}"


def plain_name(model: str) -> str:
    """Return a name without what spellings differ in: 'Liquid-S4' and 'liquid_s4' are one."""
    return re.sub(r"[\W_]", "", model.lower())


# --- the files


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
def load(folder: Path) -> tuple[CsvRow, ...]:
    """Return every row of every CSV in `folder`, column name -> text."""
    return tuple(row for path in sorted(folder.glob("*.csv")) for row in _read(path))


@lru_cache(maxsize=8)
def names(what: str) -> tuple[CsvRow, ...]:
    """Return the rows of names/`what`.csv: what the papers call what we call otherwise."""
    return tuple(_read(reference_dir() / "names" / f"{what}.csv"))


def _read(path: Path) -> list[CsvRow]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _rows(
    folder: Path | None, paper: str, task: str, split: str = "", table: str = ""
) -> list[CsvRow]:
    """The rows on a task; if named, of one split and in one table. Without a task there is none."""
    return [
        row
        for row in load(folder or reference_dir())
        if row["task"] == task != ""
        and row["paper"].startswith(paper)
        and split in ("", row["split"])
        and table in ("", row["table"])
    ]


@lru_cache(maxsize=512)
def _numbers(
    folder: Path, paper: str, task: str, split: str = "", table: str = ""
) -> tuple[Reference, ...]:
    """What is printed there of models, in the order of the tables; of several the first."""
    found: dict[str, Reference] = {}
    for row in _rows(folder, paper, task, split, table):
        scored = "accuracy" in row["metric"] or row["metric"].lower() in METRICS
        if scored and row["table"] != MEASURED:
            found.setdefault(row["model"], _reference(row))
    return tuple(found.values())


def _reference(row: CsvRow) -> Reference:
    length = re.search(r"length (\d+)|(?:lengths|evaluate|test) \d+-(\d+)", row["split"])
    trials = re.search(r"(?:mean|median) of (\d+)", row["aggregation"])
    text, spread = (_as_share(number, row["unit"]) for number in (row["value"], row["spread"]))
    rules = (
        name["rule"]
        for name in names("rules")
        if row["paper"].startswith(name["paper"]) and name["aggregation"] in row["aggregation"]
    )
    table = f"Table {row['table']}" if row["table"].isdecimal() else row["table"]
    return Reference(
        text=text,
        value=float(text),
        length=int(length.group(1) or length.group(2)) if length else None,
        source=row["paper"] if f" {table}" in row["paper"] else f"{row['paper']}, {table}",
        aggregation=row["aggregation"],
        model=row["model"],
        rule=next(rules, None),
        trials=int(trials.group(1)) if trials else None,
        metric=metric_among([row["metric"].lower()]),
        spread=spread,
        unit=row["unit"],
    )


def _as_share(number: str, unit: str) -> str:
    """Return a percentage, or an accuracy scaled from some chance to 0, as a share of 1."""
    if number and unit == "percent":
        return str(Decimal(number).scaleb(-2))
    if number and unit.startswith(SCALED):
        chance = Decimal(unit.removeprefix(SCALED))
        return str(chance + (1 - chance) * Decimal(number))
    return number


# --- tasks at a test length


def _named(task: str, protocol: str) -> CsvRow | None:
    """What the paper of a protocol calls a task; None where it has none."""
    named = (row for row in names("tasks") if row["lrbench_task"] == task)
    return next((row for row in named if row["protocol"] == protocol), None)


def _with_modulus(named: CsvRow | None, modulus: int | None) -> str | None:
    """The task's name in its paper, None where it needs a modulus and has none."""
    if named is None or (MODULUS in named["task"] and modulus is None):
        return None
    return named["task"].replace(MODULUS, str(modulus))


def printed(
    task: str, modulus: int | None, protocol: str, folder: Path | None = None
) -> list[Reference]:
    """Return every model's number that the paper prints for a task, in the paper's order."""
    named = _named(task, protocol)
    name = _with_modulus(named, modulus)
    if named is None or name is None:
        return []
    return list(_numbers(folder or reference_dir(), named["paper"], name, table=named["table"]))


def lookup(
    task: str,
    modulus: int | None,
    model: str,
    protocol: str,
    folder: Path | None = None,
    row: str | None = None,
    reach: object = None,
) -> Reference | None:
    """Return the paper's number for this cell, or None where no paper printed one.

    `row` is the paper's name of the model; without it `model` is looked for by its own. `reach` is
    its setting `model.mixer.range`, where it has one: papers write it behind a name, and a row
    without it is of eigenvalues in [0, 1].
    """
    found = printed(task, modulus, protocol, folder)
    written = {name: f"{model} {ends}" for name, ends in EIGENVALUES.items()}.get(str(reach))
    wanted = [row] if row else [written, None if reach == SIGNED else model]
    return next((number for name in wanted if name for number in found if number.is_of(name)), None)


def printed_prefixes(
    task: str, protocol: str, model: str, folder: Path | None = None
) -> dict[int, str]:
    """Return the shares of strings right up to a position that a paper prints.

    By position. `model` is the paper's name, or ours.
    """
    named = _named(task, protocol)
    if named is None:
        return {}
    found = {}
    for row in _rows(folder, named["paper"], named["task"], table=named["table"]):
        position = re.search(r"first (\d+) positions", row["split"])
        if position and _reference(row).is_of(model):
            found[int(position.group(1))] = _reference(row).shown
    return found


def stated_settings(named: CsvRow, name: str, folder: Path | None) -> dict[str, str]:
    """Return how a paper ran a task, by our names of the settings."""
    ours = {r["metric"]: r["setting"] for r in names("settings") if r["paper"] == named["paper"]}
    rows = _rows(folder, named["paper"], name, "setting")
    return {ours[row["metric"]]: row["value"] for row in rows if row["metric"] in ours}


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


SETTINGS = {  # field of `Published` -> the setting that it is
    "updates": "protocol.max_steps",
    "look_every": "protocol.look_every",
    "strings": "protocol.look_size",
    "train_length": "protocol.train_length",
    "test_length": "protocol.test_lengths",
}


def published(
    protocol: str, task: str, modulus: int | None, folder: Path | None = None
) -> Published | None:
    """Return how the paper of `protocol` looked at a task, None where it does not say."""
    named = _named(task, protocol)
    name = _with_modulus(named, modulus)
    if named is None or name is None:
        return None
    stated = stated_settings(named, name, folder)
    if not all(setting in stated for setting in SETTINGS.values()):
        return None
    return Published(**{field: int(stated[setting]) for field, setting in SETTINGS.items()})


def measured_chance(
    task: str, modulus: int | None, length: int, folder: Path | None = None
) -> float | None:
    """Return the best baseline at `length` as it was measured for the tables, None if it was not.

    For a task that no run of a report has; where one has, its own measurement is used.
    """
    named = next((row for row in names("tasks") if row["lrbench_task"] == task), None)
    name = _with_modulus(named, modulus)
    if name is None:
        return None
    split = f"extrapolation length {length}"
    rows = _rows(folder, "", name, split, MEASURED)
    return next((float(row["value"]) for row in rows), None)


def printed_modulus(task: str, protocol: str, folder: Path | None = None) -> int | None:
    """Return the modulus a paper prints numbers for, None where it prints several or none."""
    named = _named(task, protocol)
    if named is None or MODULUS not in named["task"]:
        return None
    start, end = named["task"].split(MODULUS)
    found = {
        row["task"].removeprefix(start).removesuffix(end)
        for row in load(folder or reference_dir())
        if row["paper"].startswith(named["paper"])
        and row["table"] == named["table"]
        and row["task"].startswith(start)
    }
    moduli = [int(name) for name in found if name.isdecimal()]
    return moduli[0] if len(moduli) == 1 else None


# --- splits of a corpus


def _named_split(split: Split) -> tuple[str, str]:
    """What the papers call a split's task and the split; empty where they have none."""
    key = (split.task, split.trained_on, split.name)
    found = (
        (row["task"], row["split"])
        for row in names("splits")
        if (row["lrbench_task"], row["train_split"], row["lrbench_split"]) == key
    )
    return next(found, ("", ""))


def printed_on(split: Split, table: str = "", folder: Path | None = None) -> list[Reference]:
    """Return every model's number for a split, in the order of the paper's table (a numeral).

    Without `table`, of all its tables, and the first where two have the same model.
    """
    return list(_numbers(folder or reference_dir(), "", *_named_split(split), table))


def ablation(model: str, settings: Mapping[str, Any]) -> str | None:
    """Return the paper's row of a model without a part; None for the model as it is.

    settings: a run's, flat. Without several parts it is a row that no paper has.
    """
    lacking = [
        row["model"]
        for row in names("ablations")
        if row["lrbench_model"] == model and written(settings.get(row["setting"])) == row["value"]
    ]
    return ", ".join(lacking) or None


def lookup_on(
    split: Split, model: str, table: str = "", row: str | None = None, folder: Path | None = None
) -> Reference | None:
    """Return the number of `model`, or of the paper's `row`; None where there is none."""
    found = printed_on(split, table, folder)
    return next((number for number in found if number.is_of(row or model)), None)


def printed_splits(table: str, folder: Path | None = None) -> list[Split]:
    """Return the splits, of those lrbench has, that a table of the paper has, in its order."""
    ours = {
        (row["paper"], row["task"], row["split"]): Split(
            row["lrbench_task"], row["lrbench_split"], row["train_split"]
        )
        for row in names("splits")
    }
    there = (
        (row["paper"], row["task"], row["split"])
        for row in load(folder or reference_dir())
        if row["table"] == table
    )
    return [ours[key] for key in dict.fromkeys(there) if key in ours]


def table_of(source: str) -> str:
    """Return '2' of 'arXiv:2311.04449, Table 2'; nothing where no table of the paper is named."""
    found = re.search(r"2311\.04449.*Table (\d+)", source)
    return found.group(1) if found else ""


def measured_on(split: Split, folder: Path | None = None) -> dict[str, tuple[float, int | None]]:
    """Return {baseline: (accuracy, strings)} as it was measured for the tables.

    For a split that no run of a report was tested on; where one was, its measurement is used.
    """
    found = {}
    for row in _rows(folder, "", *_named_split(split), MEASURED):
        strings = re.search(r"all (\d+)", row["aggregation"])
        found[row["model"]] = (float(row["value"]), int(strings.group(1)) if strings else None)
    return found
