"""What `lrbench evaluate` added to a run folder: scores that its result.json does not have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.report.columns import BY_SPLIT
from lrbench.report.folders import Problems, shown
from lrbench.report.json_files import read_object
from lrbench.report.schema import evaluations_complaint, is_integer, is_number

FOLDER = "evaluations"
Evaluation = tuple[Any, ...]  # in the order of EVALUATION_COLUMNS


def further_rows(folder: Path, problems: Problems) -> list[dict[str, Any]]:
    """Return the rows of evaluations/*.json of a run folder; damaged files are in `problems`.

    Files are named by when they were written: of several rows for one rule, split and length the
    newest file's counts.
    """
    try:
        names = evaluation_names(folder)
    except OSError as error:
        problems.append((shown(folder / FOLDER), f"cannot be listed: {error.strerror}"))
        return []
    newest: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name in names:
        data = read_object(folder / FOLDER / name, problems, evaluations_complaint)
        for row in data["evaluations"] if data else []:
            if row["kind"] == "test":
                newest[row["which"], row["split"], row["length"]] = row
    return [row for _, row in sorted(newest.items())]


def evaluation_names(folder: Path) -> list[str]:
    """Return the files of FOLDER of a run, oldest first; hidden ones are being written.

    Raises OSError where it is there and cannot be listed.
    """
    if not (folder / FOLDER).exists():
        return []
    return sorted(name for name in os.listdir(folder / FOLDER) if _is_whole(name))


def evaluation_files(folder: Path) -> list[str]:
    """Return the same as paths below a run's folder; UserError where they cannot be listed."""
    try:
        return [f"{FOLDER}/{name}" for name in evaluation_names(folder)]
    except OSError as error:
        raise UserError(f"{folder / FOLDER} cannot be read: {error.strerror}") from error


def further(rows: Iterable[dict[str, Any]], result: Mapping[str, Any]) -> list[Evaluation]:
    """Return what further rows say of a finished run that its result.json does not say.

    A rule and length (of a run over a corpus: a rule and split) that result.json has is left out,
    lest it be counted twice; so is a row of another checkpoint than the run ended with, made while
    it was under way. As in result.json, a score stands under each rule that kept its checkpoint.
    """
    steps: dict[str, int | None] = result.get("checkpoints") or {}
    key = "split" if result["protocol"] in BY_SPLIT else "length"
    tests = [row for row in result["evaluations"] if row["kind"] == "test"]
    there = {(row["which"], row[key]) for row in tests}
    current = [row for row in rows if _is_of(row, steps.get(row["which"]))]
    rows_of = {(row["which"], row[key]): row for row in current}
    for row in current:
        for rule in _twins(row["which"], steps):
            rows_of.setdefault((rule, row[key]), row)
    return [
        evaluation(row | {"which": rule}, steps.get(rule))
        for (rule, place), row in rows_of.items()
        if (rule, place) not in there
    ]


def evaluation(row: Mapping[str, Any], step: int | None = None) -> Evaluation:
    """Return a further row as a report has it; `step` is its checkpoint's, if it tells none."""
    told = [row[name] for name in ("length", "split", "metric")]
    value: Any = row.get("value")
    chance: Any = row.get("chance")
    baseline = row.get("baseline")
    return (
        *told,
        None if value is None else float(value),
        *(row["n"], row["which"], row["kind"]),
        _step(row) or step,
        float(chance) if is_number(chance) else None,
        baseline if isinstance(baseline, str) else None,
        None,
    )


def _is_whole(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _is_of(row: Mapping[str, Any], step: int | None) -> bool:
    """Rows of earlier versions do not tell their checkpoint: they are believed."""
    return None in (_step(row), step) or _step(row) == step


def _step(row: Mapping[str, Any]) -> int | None:
    step = row.get("checkpoint_step")
    return step if is_integer(step) else None


def _twins(which: str, steps: Mapping[str, int | None]) -> list[str]:
    """The rules that kept the very checkpoint of rule `which`."""
    mine = steps.get(which)
    return [rule for rule, step in steps.items() if mine is not None and step == mine]
