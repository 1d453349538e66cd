"""What Ray Chowdhury & Caragea 2023 print for the splits of ListOps and of logic: from the CSVs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from lrbench.report.paper.reference import Reference, load, plain_name, reference_dir

PAPER = "rir2023"
# Task and training split -> the task in the tables, and our splits -> the splits there. The values
# come from the files alone.
PLACES: dict[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("listops", "train"): (
        "listops-o",
        {
            "near_iid": "near-iid",
            "len_200_300": "len200-300",
            "len_500_600": "len500-600",
            "len_900_1000": "len900-1000",
            "args_10": "args10",
            "args_15": "args15",
            "lra_test": "lra",
        },
    ),
    ("listops", "lra_train"): ("listops-lra", {"lra_test": "test"}),
    ("listops", "mix_train"): ("listopsmix", {"mix_test": "test"}),
    ("logic", "train"): ("proplogic", {f"test_{n}": f"ops{n}" for n in range(7, 13)}),
}
# Other names are the paper's but for case and signs.
MODELS = {"s4d_stack": "S4D", "ordered_memory": "OM"}
MEASURED = "Measured baselines"  # column `table` of what was measured here, not printed


@dataclass(frozen=True)
class Split:
    """A split of a task, asked of models that were trained on `trained_on`."""

    task: str
    name: str
    trained_on: str = "train"

    @property
    def title(self) -> str:
        """What a heading says."""
        usual = self.trained_on == "train" or self.trained_on == f"{_family(self.name)}_train"
        return self.name if usual else f"{self.name}, trained on {self.trained_on}"


def printed(split: Split, table: str = "", folder: Path | None = None) -> list[Reference]:
    """Return every model's number for a split, in the order of the paper's table (a numeral).

    Without `table`, of all its tables, and the first where two have the same model.
    """
    found: dict[str, Reference] = {}
    for row in _rows(split, folder):
        if row["paper"] == PAPER and table in ("", row["table"]):
            found.setdefault(row["model"], _reference(row))
    return list(found.values())


def lookup(
    split: Split, model: str, table: str = "", row: str | None = None, folder: Path | None = None
) -> Reference | None:
    """Return the number of `model`, or of the paper's `row`; None where there is none."""
    numbers = printed(split, table, folder)
    return next((number for number in numbers if is_row(number.model, row or model)), None)


def printed_splits(table: str, folder: Path | None = None) -> list[Split]:
    """Return the splits, of those lrbench has, that a table of the paper has, in its order."""
    ours = {
        (task, theirs): Split(place[0], name, place[1])
        for place, (task, splits) in PLACES.items()
        for name, theirs in splits.items()
    }
    rows = load(folder or reference_dir())
    there = [
        (row["task"], row["split"])
        for row in rows
        if (row["paper"], row["table"]) == (PAPER, table)
    ]
    return [ours[place] for place in dict.fromkeys(there) if place in ours]


def table_of(source: str) -> str:
    """Return '2' of 'arXiv:2311.04449, Table 2'; nothing where no table of the paper is named."""
    found = re.search(r"2311\.04449.*Table (\d+)", source)
    return found.group(1) if found else ""


def is_row(printed_model: str, model: str) -> bool:
    """Tell whether a row of the paper is `model`: by our list, or by its letters and digits."""
    return plain_name(printed_model) == plain_name(MODELS.get(model, model))


def measured(split: Split, folder: Path | None = None) -> dict[str, tuple[float, int | None]]:
    """Return {baseline: (accuracy, strings)} as it was measured for the tables.

    For a split that no run of a report was tested on; where one was, its measurement is used.
    """
    found = {}
    for row in _rows(split, folder):
        if row["table"] == MEASURED:
            strings = re.search(r"all (\d+)", row["aggregation"])
            n = int(strings.group(1)) if strings else None
            found[row["model"]] = (float(row["value"]), n)
    return found


def faithful(split: Split, settings: Mapping[str, Any]) -> bool:
    """Tell whether a run's flat settings are those of the paper's data."""
    return split.task != "logic" or settings.get("task.source", "released") == "released"


def _rows(split: Split, folder: Path | None) -> tuple[dict[str, str], ...]:
    return _rows_in(split, folder or reference_dir())


@lru_cache(maxsize=512)
def _rows_in(split: Split, folder: Path) -> tuple[dict[str, str], ...]:
    task, splits = PLACES.get((split.task, split.trained_on), ("", {}))
    wanted = (task, splits.get(split.name))
    return tuple(row for row in load(folder) if (row.get("task"), row.get("split")) == wanted)


def _reference(row: dict[str, str]) -> Reference:
    """A percentage becomes a share, with the digits printed."""
    text, spread = (
        str(Decimal(number).scaleb(-2)) if number and row["unit"] == "percent" else number
        for number in (row["value"], row["spread"])
    )
    runs = re.search(r"of (\d+) runs", row["aggregation"])
    number = Reference(
        text=text,
        value=float(text),
        length=None,
        source=f"{row['paper']}, Table {row['table']}",
        aggregation=row["aggregation"],
        model=row["model"],
        trials=int(runs.group(1)) if runs else None,
        spread=spread,
    )
    # What others printed of their own runs was chosen by rules of their own.
    return number if runs is None else replace(number, rule="best")


def _family(split: str) -> str:
    return split.partition("_")[0]
