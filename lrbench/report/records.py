"""One run folder as a record: its row of runs.csv, its settings and its evaluations."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrbench.metrics import METRICS
from lrbench.report.chance import baselines_by_split, best_baselines
from lrbench.report.columns import CELL, RUN_COLUMNS
from lrbench.report.evaluations import Evaluation, further, further_rows
from lrbench.report.folders import Problems, shown
from lrbench.report.json_files import read_object
from lrbench.report.schema import config_complaint, failure_complaint, is_integer, result_complaint

BySplit = dict[str, dict[str, tuple[float, int | None]]]  # split, baseline: value and strings
NO_CHANCE = {"value": None, "baseline": None}


@dataclass(frozen=True)
class Record:
    """One run: its row, its evaluations, its flattened configuration and library versions.

    `baselines` are those of the splits of a corpus.
    """

    folder: Path
    row: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    baselines: BySplit = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return (*(self.row[name] for name in CELL), self.row["seed"])


def read_run(
    root: Path, folder: Path, names: set[str], problems: Problems, unfinished: list[Path]
) -> Record | None:
    """Return the record of a run folder that holds `names`.

    Otherwise None, and the folder is in `unfinished`, or what is wrong with it in `problems`.
    """
    if "result.json" in names:
        data = read_object(folder / "result.json", problems, result_complaint)
        more = further_rows(folder, problems) if data and "evaluations" in names else []
        return None if data is None else _finished(root, folder, data, more)
    if "failure.json" in names:
        seed = int(folder.absolute().name[1:])
        if not is_integer(seed):
            problems.append((shown(folder), "no seed has so many digits"))
            return None
        data = read_object(folder / "failure.json", problems, failure_complaint)
        return None if data is None else _failed(root, folder, seed, data, problems)
    unfinished.append(shown(folder))
    return None


def _finished(
    root: Path, folder: Path, result: dict[str, Any], more: list[dict[str, Any]]
) -> Record:
    """`more` are the rows that lrbench evaluate added to the folder."""
    look = result.get("perfect_look") or {}
    row = {name: result.get(name) for name in RUN_COLUMNS}
    told = result.get("telemetry") or {}
    row |= {
        "iterations": told.get("iterations"),
        "converged": told.get("converged"),
        "perfect_step": look.get("step"),
        "perfect_seconds": look.get("seconds"),
        "error": None,
        "folder": place_of(root, folder),
    }
    settings = flat(result["config"]) | flat({"versions": result.get("versions") or {}})
    scores = [*_evaluations(result), *further(more, result)]
    return Record(shown(folder), row, settings, scores, baselines_by_split(result))


def _failed(
    root: Path, folder: Path, seed: int, failure: dict[str, Any], problems: Problems
) -> Record:
    """A failed run says nothing about what it was: its folder and the cell's config.json do."""
    above = [parent.name or "?" for parent in shown(folder.absolute()).parents[:4]]
    names = dict(zip(["fingerprint", "protocol", "model", "task"], above, strict=False))
    row = (
        dict.fromkeys(RUN_COLUMNS)
        | dict.fromkeys(CELL, "?")
        | names
        | {
            "seed": seed,
            "status": "failed",
            "steps": failure.get("step"),
            "error": f"{failure.get('type') or 'Error'}: {failure['error']}",
            "folder": place_of(root, folder),
        }
    )
    path = folder.parent / "config.json"
    told = [] if any(place == shown(path) for place, _ in problems) else problems
    config = read_object(path, told, config_complaint) if path.exists() else None
    return Record(shown(folder), row, flat(config or {}))


def place_of(root: Path, folder: Path) -> str:
    """Return a run's folder as its row tells it: relative to the folder of runs."""
    return shown(folder.relative_to(root)).as_posix()


def _evaluations(result: dict[str, Any]) -> list[Evaluation]:
    """Each evaluation beside the update of its checkpoint, chance and guessing at its length."""
    steps = result.get("checkpoints") or {}
    chance = best_baselines(result)
    guessing = {(row["rule"], row["length"]): row["value"] for row in result.get("guessing") or []}
    rows = []
    for row in _for_each_rule(result["evaluations"], steps):
        which, length, metric = row["which"], row["length"], row["metric"]
        best, guess = NO_CHANCE, None
        if metric in METRICS:
            best = chance.get(length) or chance.get(row["split"], NO_CHANCE)
            guess = guessing.get((which, length))
        names = [sys.intern(name) for name in (row["split"], metric, which, row["kind"])]
        split, metric, which, kind = names  # one object for each name: there are 100,000 rows
        told = (length, split, metric, row.get("value"), row["n"], which, kind)
        rows.append((*told, steps.get(which), best["value"], best["baseline"], guess))
    return rows


def _for_each_rule(
    evaluations: list[dict[str, Any]], steps: dict[str, int | None]
) -> list[dict[str, Any]]:
    """A checkpoint that several rules kept is scored once: repeat its scores under each of them."""
    scored = {row["which"] for row in evaluations if row["kind"] == "test"}
    repeated = []
    for rule in (rule for rule in steps if rule not in scored and steps[rule] is not None):
        twin = next((other for other in sorted(scored) if steps.get(other) == steps[rule]), None)
        repeated += [
            row | {"which": rule}
            for row in evaluations
            if row["which"] == twin and row["kind"] == "test"
        ]
    return evaluations + repeated


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten {'optim': {'lr': 1}} to {'optim.lr': 1}; lists become json text."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = sys.intern(f"{prefix}{name}")
        if isinstance(value, dict) and value:
            found |= flat(value, f"{key}.")
        else:
            found[key] = json.dumps(value) if isinstance(value, list | dict) else value
    return found
