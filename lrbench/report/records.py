"""One run folder as a record: its row of runs.csv, its settings and its evaluations."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrbench.metrics import METRICS
from lrbench.report.chance import baselines_by_split, best_baselines
from lrbench.report.columns import CELL, EVALUATION_COLUMNS, RUN_COLUMNS
from lrbench.report.folders import Problems, shown
from lrbench.report.schema import config_complaint, failure_complaint, is_integer, result_complaint

LARGEST = 64 * 2**20  # bytes of a json file; a real result has twenty thousand
# A character that json can spell as an escape although no text may hold half of it
HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")

Evaluation = tuple[Any, ...]  # in the order of EVALUATION_COLUMNS
BySplit = dict[str, dict[str, tuple[float, int | None]]]  # split, baseline: value and strings
NO_CHANCE = {"value": None, "baseline": None}
NOT_MEASURED: Evaluation = (None,) * len(EVALUATION_COLUMNS)


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
        return None if data is None else _finished(root, folder, data)
    if "failure.json" in names:
        seed = int(folder.absolute().name[1:])
        if not is_integer(seed):
            problems.append((shown(folder), "no seed has so many digits"))
            return None
        data = read_object(folder / "failure.json", problems, failure_complaint)
        return None if data is None else _failed(root, folder, seed, data, problems)
    unfinished.append(shown(folder))
    return None


def read_object(
    path: Path, problems: Problems, complaint: Callable[[Any], str | None]
) -> dict[str, Any] | None:
    """Return the object in a json file, or None and a line in `problems`."""
    data: Any = None
    try:
        data = _parsed(_content(path))
        wrong = complaint(data)
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        wrong = f"is not json: {str(error) or type(error).__name__}"
    if wrong is None:
        return dict(data)
    problems.append((shown(path), wrong))
    return None


def _content(path: Path) -> bytes:
    """Return a plain file's bytes; OSError for others: a pipe would wait, a device never end.

    Plain system calls, half as many as `Path.read_bytes` makes: there are thousands of files.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        if found.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB")
        data = os.read(opened, found.st_size)
        while len(data) < found.st_size and (more := os.read(opened, found.st_size - len(data))):
            data += more
        return data
    finally:
        os.close(opened)


def _parsed(content: bytes) -> Any:
    text = content.decode("utf-8")
    data = json.loads(text)
    if HALF_CHARACTER.search(text):
        json.dumps(data, ensure_ascii=False).encode()  # half a character could not be written out
    return data


def _finished(root: Path, folder: Path, result: dict[str, Any]) -> Record:
    look = result.get("perfect_look") or {}
    row = {name: result.get(name) for name in RUN_COLUMNS}
    told = result.get("telemetry") or {}
    row |= {
        "iterations": told.get("iterations"),
        "converged": told.get("converged"),
        "perfect_step": look.get("step"),
        "perfect_seconds": look.get("seconds"),
        "error": None,
        "folder": _place(root, folder),
    }
    settings = _flat(result["config"]) | _flat({"versions": result.get("versions") or {}})
    return Record(shown(folder), row, settings, _evaluations(result), baselines_by_split(result))


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
            "folder": _place(root, folder),
        }
    )
    path = folder.parent / "config.json"
    told = [] if any(place == shown(path) for place, _ in problems) else problems
    config = read_object(path, told, config_complaint) if path.exists() else None
    return Record(shown(folder), row, _flat(config or {}))


def _place(root: Path, folder: Path) -> str:
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


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten {'optim': {'lr': 1}} to {'optim.lr': 1}; lists become json text."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        key = sys.intern(f"{prefix}{name}")
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{key}.")
        else:
            flat[key] = json.dumps(value) if isinstance(value, list | dict) else value
    return flat
