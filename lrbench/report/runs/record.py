"""One run folder as a record: its row of runs.csv, its settings, evaluations and baselines."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, cast

from lrbench.errors import UserError
from lrbench.metrics import METRICS, metric_of
from lrbench.protocols.base import declared
from lrbench.records import POSITIONS, TREES, Baseline, Evaluation, Guessing, Result
from lrbench.report.runs.certificates import FOLDER as CERTIFICATES
from lrbench.report.runs.certificates import read_answers
from lrbench.report.runs.columns import (
    CELL,
    NOT_EVALUATED,
    RUN_COLUMNS,
    BySplit,
    EvaluationRow,
    Evaluations,
    Problems,
    Record,
    Row,
    Settings,
    in_columns,
)
from lrbench.report.runs.files import read_object, shown
from lrbench.report.runs.schema import (
    config_complaint,
    evaluations_complaint,
    failure_complaint,
    is_integer,
    is_number,
    result_complaint,
)


def best_baseline(result: Result, length: int) -> Baseline | None:
    """Return the baseline of `result` that scores best at `length`: what chance gives."""
    metric = metric_of(result)
    known = [row for row in result.get("baselines") or [] if row.get("length") == length]
    return max(known, key=lambda row: metric.merit(float(row["value"])), default=None)


def best_baselines(result: Result) -> dict[int | str, Baseline]:
    """Return what `best_baseline` says at each length, or split, that has one."""
    metric = metric_of(result)
    best: dict[int | str, Baseline] = {}
    for row in result.get("baselines") or []:
        place = row["split"] if "split" in row else row["length"]
        known = best.setdefault(place, row)
        if metric.merit(float(row["value"])) > metric.merit(float(known["value"])):
            best[place] = row
    return best


def baselines_by_split(result: Result) -> BySplit:
    """Return {split: {baseline: (value, strings)}}; empty for a run that is tested at lengths."""
    found: BySplit = {}
    for row in result.get("baselines") or []:
        if "split" in row:
            strings = row.get("n")
            n = strings if type(strings) is int and strings > 0 else None
            found.setdefault(row["split"], {})[row["baseline"]] = (float(row["value"]), n)
    return found


def guessing_at(result: Result, rule: str, length: int) -> Guessing | None:
    """Return the row on what a guesser scores at `length` when its number is taken by `rule`."""
    for row in result.get("guessing") or []:
        if (row["rule"], row["length"]) == (rule, length):
            return row
    return None


FOLDER = "evaluations"
STRINGS = "data.sha256"  # the setting that tells which strings a run at lengths was tested on


def digest_of(strings: Mapping[str, Any]) -> str:
    """Return one hash of drawn test strings: of how many and which, length by length.

    strings: {length: {"n": .., "sha256": {"strings": ..}}}, as `data` of a result.json has them.
    """
    told = {
        length: [one.get("n"), one.get("sha256", {}).get("strings")]
        for length, one in strings.items()
        if isinstance(one, dict) and isinstance(one.get("sha256", {}), dict)
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def further_rows(folder: Path, problems: Problems) -> list[Evaluation]:
    """Return the rows of evaluations/*.json of a run folder; damaged files are in `problems`.

    Files are named by when they were written: of several rows for one rule and place the newest
    file's counts.
    """
    try:
        names = evaluation_names(folder)
    except OSError as error:
        problems.append((shown(folder / FOLDER), f"cannot be listed: {error.strerror}"))
        return []
    newest: dict[tuple[str, str, str, int], Evaluation] = {}
    for name in names:
        data = read_object(folder / FOLDER / name, problems, evaluations_complaint)
        for row in data["evaluations"] if data else []:
            if row["kind"] == "test":
                newest[row["which"], row["split"], "", row["length"]] = row
            elif row["kind"] == TREES:  # of however many strings, and so however long
                newest[row["which"], row["split"], row["metric"], 0] = row
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


def further(rows: Iterable[Evaluation], result: Result) -> list[EvaluationRow]:
    """Return what further rows say of a finished run that its result.json does not say.

    A rule and length (of a run over a corpus: a rule and split) that result.json has is left out,
    lest it be counted twice; so is a row of another checkpoint than the run ended with, made while
    it was under way. As in result.json, a score stands under each rule that kept its checkpoint.
    """
    steps: Mapping[str, int | None] = result.get("checkpoints") or {}
    key: Literal["split", "length"]
    key = "split" if declared(result["protocol"]).by_split else "length"
    tests = [
        row for row in result["evaluations"] if row["kind"] == "test" and row["split"] != POSITIONS
    ]

    def place(row: Evaluation) -> tuple[str, str | int]:
        return (row["metric"] if row["kind"] == TREES else "", row[key])

    there = {(row["which"], place(row)) for row in tests}
    current = [row for row in rows if _is_of(row, steps.get(row["which"]))]
    rows_of = {(row["which"], place(row)): row for row in current}
    for row in current:
        for rule in _twins(row["which"], steps):
            rows_of.setdefault((rule, place(row)), row)
    return [
        evaluation(row | {"which": rule}, steps.get(rule))
        for (rule, at), row in rows_of.items()
        if (rule, at) not in there
    ]


def evaluation(row: Evaluation, step: int | None = None) -> EvaluationRow:
    """Return a further row as a report has it; `step` is its checkpoint's, if it tells none."""
    where = [row[name] for name in ("length", "split", "metric")]
    value: Any = row.get("value")
    chance: Any = row.get("chance")
    baseline = row.get("baseline")
    return (
        *where,
        None if value is None else float(value),
        *(row["n"], row["which"], row["kind"]),
        _step(row) or step,
        float(chance) if is_number(chance) else None,
        baseline if isinstance(baseline, str) else None,
        None,
    )


def _is_whole(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _is_of(row: Evaluation, step: int | None) -> bool:
    """Rows of earlier versions do not tell their checkpoint: they are believed."""
    return None in (_step(row), step) or _step(row) == step


def _step(row: Evaluation) -> int | None:
    step = row.get("checkpoint_step")
    return step if is_integer(step) else None


def _twins(which: str, steps: Mapping[str, int | None]) -> list[str]:
    """The rules that kept the very checkpoint of rule `which`."""
    mine = steps.get(which)
    return [rule for rule, step in steps.items() if mine is not None and step == mine]


def read_run(
    root: Path, folder: Path, names: set[str], problems: Problems, unfinished: list[Path]
) -> Record | None:
    """Return the record of a run folder that holds `names`.

    Otherwise None, and the folder is in `unfinished`, or what is wrong with it in `problems`.
    """
    if "result.json" in names:
        data = read_object(folder / "result.json", problems, result_complaint)
        more = further_rows(folder, problems) if data and "evaluations" in names else []
        if data is None:
            return None
        steps = data.get("checkpoints") or {}
        answers = read_answers(folder, steps, problems) if CERTIFICATES in names else {}
        return replace(_finished(root, folder, cast(Result, data), more), answers=answers)
    if "failure.json" in names:
        seed = int(folder.absolute().name[1:])
        if not is_integer(seed):
            problems.append((shown(folder), "no seed has so many digits"))
            return None
        data = read_object(folder / "failure.json", problems, failure_complaint)
        return None if data is None else _failed(root, folder, seed, data, problems)
    unfinished.append(shown(folder))
    return None


def _finished(root: Path, folder: Path, result: Result, more: list[Evaluation]) -> Record:
    """`more` are the rows that lrbench evaluate added to the folder."""
    look: Mapping[str, Any] = result.get("perfect_look") or {}
    row: Row = {name: result.get(name) for name in RUN_COLUMNS}
    telemetry = result.get("telemetry") or {}
    row |= {
        "iterations": telemetry.get("iterations"),
        "converged": telemetry.get("converged"),
        "perfect_step": look.get("step"),
        "perfect_seconds": look.get("seconds"),
        "error": None,
        "folder": place_of(root, folder),
    }
    settings = _settings(result["config"], result.get("versions") or {})
    if (strings := result.get("data")) and not declared(result["protocol"]).by_split:
        settings[STRINGS] = digest_of(strings)
    scores = _evaluations(result)
    if more and (later := further(more, result)):
        pairs = zip(scores, in_columns(later), strict=True)
        scores = tuple(column + further_values for column, further_values in pairs)
    return Record(shown(folder), row, settings, scores, baselines_by_split(result))


def _settings(config: dict[str, Any], versions: dict[str, Any]) -> Settings:
    """Return both flat; runs that differ in their seeds alone share the values.

    They are compared as bytes, since True == 1 == 1.0.
    """
    seeds = {name: config[name] for name in ("seed", "data_seed") if is_integer(config.get(name))}
    without_seeds = config | dict.fromkeys(seeds) | {"versions": versions}
    return _flat_of(marshal.dumps(without_seeds, PLAIN)) | seeds


PLAIN = 2  # marshal's version whose bytes tell values alone, not which objects are one


@lru_cache(maxsize=64)  # the runs of a cell come one after another
def _flat_of(settings: bytes) -> Settings:
    """Return settings flat, as marshal has written them."""
    return flat(marshal.loads(settings))


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
    config = read_object(path, problems, config_complaint) if path.exists() else None
    return Record(shown(folder), row, flat(config or {}))


def place_of(root: Path, folder: Path) -> str:
    """Return a run's folder as its row tells it: relative to the folder of runs."""
    start, place = f"{root}{os.sep}", str(folder)
    if place.isascii() and place.startswith(start):  # most are: a fraction of the time
        return place.removeprefix(start)
    return shown(folder.relative_to(root)).as_posix()


NAMES = ("length", "split", "metric", "n", "which", "kind")
_names_of = itemgetter(*NAMES)
NO_LEVEL = (None, None)
Columns = tuple[tuple[Any, ...], ...]


def _evaluations(result: Result) -> Evaluations:
    """The evaluations beside the update of its checkpoint, chance and guessing at its length."""
    steps = result.get("checkpoints") or {}
    rows = _for_each_rule(result["evaluations"], steps)
    if not rows:
        return NOT_EVALUATED
    columns = tuple(zip(*map(_names_of, rows), strict=True))
    levels = tuple(
        (place, best["value"], best["baseline"]) for place, best in best_baselines(result).items()
    )
    guessing = tuple(
        (row["rule"], row["length"], row["value"]) for row in result.get("guessing") or []
    )
    columns, beside = _beside(columns, tuple(steps.items()), levels, guessing)
    lengths, splits, metrics, strings, rules, kinds = columns
    values = tuple([row.get("value") for row in rows])
    return (lengths, splits, metrics, values, strings, rules, kinds, *beside)


@lru_cache(maxsize=64)  # the runs of a cell come one after another
def _beside(
    columns: Columns,
    steps: tuple[tuple[str, int | None], ...],
    levels: tuple[tuple[int | str, float, str], ...],
    guessing: tuple[tuple[str, int, float], ...],
) -> tuple[Columns, Columns]:
    """Return the columns NAMES, and those of what stands beside them."""
    lengths, splits, metrics, _, rules, _ = columns
    best = {place: (value, baseline) for place, value, baseline in levels}
    guessed = {(rule, length): value for rule, length, value in guessing}
    known = [
        (best.get(length) or best.get(split) or NO_LEVEL) if metric in METRICS else NO_LEVEL
        for length, split, metric in zip(lengths, splits, metrics, strict=True)
    ]
    guesses = tuple(
        guessed.get((rule, length)) if metric in METRICS else None
        for rule, length, metric in zip(rules, lengths, metrics, strict=True)
    )
    taken = tuple(map(dict(steps).get, rules))
    chances, baselines = zip(*known, strict=True)
    return _shared(columns), _shared((taken, chances, baselines, guesses))


@lru_cache(maxsize=1024)
def _shared(columns: Columns) -> Columns:
    """Return equal columns of another run, where there are any: of 100,000 rows few are unlike."""
    return columns


def _for_each_rule(
    evaluations: list[Evaluation], steps: Mapping[str, int | None]
) -> list[Evaluation]:
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


def flat(config: dict[str, Any], prefix: str = "") -> Settings:
    """Flatten {'optim': {'lr': 1}} to {'optim.lr': 1}; lists become json text."""
    found: Settings = {}
    for name, value in config.items():
        key = sys.intern(f"{prefix}{name}")
        if isinstance(value, dict) and value:
            found |= flat(value, f"{key}.")
        else:
            found[key] = json.dumps(value) if isinstance(value, list | dict) else value
    return found
