"""Gather the runs below a folder into tidy frames; what cannot be read is listed, never dropped.

Only json is read: nothing found in a run folder is unpickled or executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import UserError
from lrbench.report.chance import best_baseline, guessing_at
from lrbench.report.columns import CELL, EVALUATION_COLUMNS, RUN_COLUMNS
from lrbench.report.schema import failure_complaint, result_complaint

RUN_FOLDER = re.compile(r"s\d+")
RUN_FILES = {"result.json", "failure.json", "metrics.jsonl", "checkpoints", "run.log"}

Problems = list[tuple[Path, str]]


@dataclass(frozen=True)
class Collection:
    """Every run found below a folder.

    `frame` has a row per run and evaluation (one row with empty cells for a run without any),
    `runs` a row per run. Both have a column for each configuration key and each `versions.*` that
    is not the same in all runs, `varying`; `settings` has all of them for each run's `folder`.
    `problems` are files that could not be used, each with the reason; `unfinished` are run folders
    without a result.
    """

    frame: pd.DataFrame
    runs: pd.DataFrame
    varying: tuple[str, ...]
    settings: dict[str, dict[str, Any]]
    problems: Problems
    unfinished: list[Path]


@dataclass(frozen=True)
class Record:
    """One run: its row, its evaluations, its flattened configuration and library versions."""

    folder: Path
    row: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[Any, ...]:
        return (*(self.row[name] for name in CELL), self.row["seed"])


def collect(runs_dir: Path) -> Collection:
    """Read every run below `runs_dir`; raises UserError if there is no such folder."""
    root = Path(runs_dir)
    try:
        found = root.is_dir()
    except OSError as error:
        name = str(root)[:40]
        raise UserError(f"--runs '{name}...' cannot be looked at: {error.strerror}") from error
    if not found:
        raise UserError(
            f"no folder of runs at '{root}'\nfix: lrbench train, or name another with --runs DIR"
        )
    problems: Problems = []
    unfinished: list[Path] = []
    records: dict[tuple[Any, ...], Record] = {}
    for folder in _run_folders(root, problems):
        record = _read_run(root, folder, problems, unfinished)
        if record is None:
            continue
        first = records.setdefault(record.key, record)
        if first is not record:  # counted twice it would shrink every interval
            problems.append((folder, f"the same run as {first.folder}, which is used"))
    ordered = sorted(records.values(), key=lambda record: record.key)
    keys = _varying([record.settings for record in ordered if record.settings])
    runs = [{**record.row, **{k: record.settings.get(k) for k in keys}} for record in ordered]
    rows = [
        {**run, **evaluation}
        for run, record in zip(runs, ordered, strict=True)
        for evaluation in record.evaluations or [{}]
    ]
    return Collection(
        frame=_frame(rows, RUN_COLUMNS | EVALUATION_COLUMNS, keys),
        runs=_frame(runs, RUN_COLUMNS, keys),
        varying=keys,
        settings={record.row["folder"]: record.settings for record in ordered},
        problems=problems,
        unfinished=unfinished,
    )


def _run_folders(root: Path, problems: Problems) -> Iterator[Path]:
    """Yield folders called s<seed> in order, leaving out results being replaced and hidden ones."""

    def unreadable(error: OSError) -> None:
        problems.append((Path(error.filename), f"cannot be listed: {error.strerror}"))

    for name, folders, files in os.walk(root, onerror=unreadable):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and not f.endswith((".new", ".old"))
        )
        # A model may be called s4: only a folder that holds a run's files is one. The absolute
        # path, because `--runs .` may be said inside a run folder.
        named = RUN_FOLDER.fullmatch(Path(name).absolute().name)
        if named and not RUN_FILES.isdisjoint([*folders, *files]):
            folders.clear()
            yield Path(name)


def _read_run(
    root: Path, folder: Path, problems: Problems, unfinished: list[Path]
) -> Record | None:
    result, failure = folder / "result.json", folder / "failure.json"
    if os.path.lexists(result):
        data = _read(result, problems, result_complaint)
        return None if data is None else _finished(root, folder, data)
    if os.path.lexists(failure):
        data = _read(failure, problems, failure_complaint)
        return None if data is None else _failed(root, folder, data, problems)
    unfinished.append(folder)
    return None


def _read(path: Path, problems: Problems, complaint: Any) -> dict[str, Any] | None:
    """Return the object in a json file, or None and a line in `problems`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(data, ensure_ascii=False).encode()  # half a character could not be written out
    except OSError as error:
        problems.append((path, f"cannot be read: {error.strerror}"))
    except (ValueError, RecursionError) as error:
        problems.append((path, f"is not json: {str(error) or type(error).__name__}"))
    else:
        wrong = complaint(data)
        if wrong is None:
            return dict(data)
        problems.append((path, wrong))
    return None


def _finished(root: Path, folder: Path, result: dict[str, Any]) -> Record:
    look = result.get("perfect_look") or {}
    row = {name: result.get(name) for name in RUN_COLUMNS}
    row |= {
        "perfect_step": look.get("step"),
        "perfect_seconds": look.get("seconds"),
        "error": None,
        "folder": folder.relative_to(root).as_posix(),
    }
    settings = _flat(result["config"]) | _flat({"versions": result.get("versions") or {}})
    return Record(folder, row, settings, _evaluations(result))


def _failed(root: Path, folder: Path, failure: dict[str, Any], problems: Problems) -> Record:
    """A failed run says nothing about what it was: its folder and the cell's config.json do."""
    above = [parent.name or "?" for parent in folder.absolute().parents[:4]]
    names = dict(zip(["fingerprint", "protocol", "model", "task"], above, strict=False))
    row = (
        dict.fromkeys(RUN_COLUMNS)
        | dict.fromkeys(CELL, "?")
        | names
        | {
            "seed": int(folder.absolute().name[1:]),
            "status": "failed",
            "steps": failure.get("step"),
            "error": f"{failure.get('type') or 'Error'}: {failure['error']}",
            "folder": folder.relative_to(root).as_posix(),
        }
    )

    def complaint(data: Any) -> str | None:
        return None if isinstance(data, dict) else "holds no object"

    path = folder.parent / "config.json"
    config = _read(path, problems, complaint) if path.exists() else None
    return Record(folder, row, _flat(config or {}))


def _evaluations(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Each evaluation beside the update of its checkpoint, chance and guessing at its length."""
    steps = result.get("checkpoints") or {}
    rows = []
    for evaluation in _for_each_rule(result["evaluations"], steps):
        row: dict[str, Any] = {name: evaluation.get(name) for name in EVALUATION_COLUMNS}
        row["checkpoint_step"] = steps.get(row["which"])
        if row["metric"] == "accuracy":
            best = best_baseline(result, row["length"]) or {}
            guess = guessing_at(result, row["which"], row["length"]) or {}
            row |= {"chance": best.get("value"), "chance_baseline": best.get("baseline")}
            row["guessing"] = guess.get("value")
        rows.append(row)
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


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten {'optim': {'lr': 1}} to {'optim.lr': 1}; lists become json text."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.dumps(value) if isinstance(value, list | dict) else value
    return flat


def _varying(settings: list[dict[str, Any]]) -> tuple[str, ...]:
    """Keys on which runs differ; one with a fixed column is told there, as what really was used."""
    taken = {*RUN_COLUMNS, *EVALUATION_COLUMNS}
    names = sorted({name for run in settings for name in run} - taken)
    return tuple(name for name in names if len(_values(name, settings)) > 1)


def _values(name: str, settings: list[dict[str, Any]]) -> set[str]:
    """The different values of a key; a failed run does not tell its versions and has no say."""
    known = [run for run in settings if name in run or not name.startswith("versions")]
    return {repr(run.get(name)) for run in known}


def _frame(
    rows: list[dict[str, Any]], columns: dict[str, str], varying: tuple[str, ...]
) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*columns, *varying], dtype=object)
    return frame.astype(columns)
