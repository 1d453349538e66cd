"""Looks of a run, from metrics.jsonl, and how far a run without a result is.

metrics.jsonl has a line a look. A torn last line is normal, and after a crash some updates were
done twice: of two looks at one update the later counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from lrbench.metrics import ACCURACY, METRICS
from lrbench.protocols.base import declared
from lrbench.records import Look
from lrbench.report.runs.columns import (
    EVALUATION_COLUMNS,
    EvaluationRow,
    Evaluations,
    Problems,
    UnderWay,
)
from lrbench.report.runs.files import content, read_object, shown
from lrbench.report.runs.record import FOLDER, evaluation, flat, further_rows, place_of
from lrbench.report.runs.schema import config_complaint, is_integer, is_number

METRICS_FILE = "metrics.jsonl"
EVERY = "every"  # column `which` of a look that stands for no rule
MARK = b'"look"'


def looks_told(evaluations: Evaluations) -> frozenset[int]:
    """Return the updates of the looks that a result believed."""
    names = list(EVALUATION_COLUMNS)
    kinds, steps = (evaluations[names.index(name)] for name in ("kind", "checkpoint_step"))
    return frozenset(
        step for kind, step in zip(kinds, steps, strict=True) if kind == "look" and step
    )


def read_looks(
    folder: Path,
    protocol: str,
    settings: Mapping[str, Any],
    told: Set[int],
    problems: Problems,
) -> tuple[EvaluationRow, ...]:
    """Return what each look of a run folder saw at the test length, or on the dev split.

    A file that cannot be read, or lacks a look at one of the updates `told`, is named in
    `problems`.
    """
    path = folder / METRICS_FILE
    try:
        lines = content(path).splitlines()
    except OSError as error:
        _name_once(problems, path, f"cannot be read: {error.strerror}")
        return ()
    looks = {look["step"]: look for line in lines if MARK in line and (look := look_of(line))}
    if lost := sorted(told - set(looks)):
        lacks = f"lacks the look at update {lost[0]:,}, which result.json tells"
        _name_once(problems, path, f"is damaged: it {lacks}")
    own = _own(settings)
    rows = (row for look in looks.values() for row in look_rows(look, protocol, own, EVERY))
    return tuple(row for row in rows if row[2] in METRICS)


def _name_once(problems: Problems, path: Path, reason: str) -> None:
    """Add a problem that no earlier reading has named."""
    if (shown(path), reason) not in problems:
        problems.append((shown(path), reason))


def look_of(line: bytes) -> Look | None:
    """Return the look that a line of metrics.jsonl tells, None where it tells none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    look = record.get("look") if isinstance(record, dict) else None
    return look if isinstance(look, dict) and is_integer(look.get("step")) else None


def look_rows(
    look: Mapping[str, Any], protocol: str, own: Mapping[str, Any], which: str
) -> Iterator[EvaluationRow]:
    """Yield what a look saw, in the order of EVALUATION_COLUMNS; a dev split has no length.

    `own` are the settings of the protocol by their own names: once a run, there are many looks.
    """
    for seen in declared(protocol).look_values(look, own):
        known = is_number(seen.value) and math.isfinite(seen.value) and is_integer(seen.n)
        if seen.metric == ACCURACY.name and known and not 0 <= seen.value <= 1:
            continue  # no accuracy
        if known and (seen.length is None or is_integer(seen.length)):
            score = (seen.length, seen.split, seen.metric, float(seen.value), seen.n)
            yield (*score, which, "look", look["step"], None, None, None)


def last_look_rows(
    look: Mapping[str, Any] | None, protocol: str, settings: Mapping[str, Any]
) -> tuple[EvaluationRow, ...]:
    """Return what the last look of an unfinished run saw: it is that of the rule last."""
    return tuple(look_rows(look or {}, protocol, _own(settings), "last"))


def _own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the protocol itself, by their own names."""
    start = "protocol."
    return {k.removeprefix(start): v for k, v in settings.items() if k.startswith(start)}


def read_under_way(
    root: Path, folder: Path, names: set[str], problems: Problems
) -> UnderWay | None:
    """Return what is known of an unfinished run, None where it does not tell what it is.

    It needs a metrics.jsonl, of which a line that was torn off is normal, and the cell's
    config.json.
    """
    path = folder.absolute().parent / "config.json"
    if "metrics.jsonl" not in names or not path.exists():
        return None
    config = read_object(folder.parent / "config.json", problems, config_complaint)
    named = [(config or {}).get(part) for part in ("task", "model", "protocol")]
    named_parts = [one.get("name") if isinstance(one, dict) else None for one in named]
    seed = int(folder.absolute().name[1:])
    if (
        config is None
        or not all(isinstance(part, str) for part in named_parts)
        or not is_integer(seed)
    ):
        return None
    last, look = _progress(folder / "metrics.jsonl", problems)
    settings = flat(config)
    rows = further_rows(folder, problems) if FOLDER in names else []
    task, model, protocol = map(str, named_parts)
    seconds: Any = last.get("seconds")
    return UnderWay(
        task=task,
        model=model,
        protocol=protocol,
        fingerprint=path.parent.name,
        seed=seed,
        folder=place_of(root, folder),
        settings=settings,
        steps=last.get("step", 0),
        seconds=float(seconds) if is_number(seconds) else None,
        budget=declared(protocol).most_updates(_own(settings), look),
        look=look,
        look_scores=last_look_rows(look, protocol, settings),
        evaluations=tuple(map(evaluation, rows)),
    )


def _progress(path: Path, problems: Problems) -> tuple[dict[str, Any], Look | None]:
    """The last whole line of metrics.jsonl that tells an update, and the last look."""
    last: dict[str, Any] = {}
    try:
        lines = content(path).splitlines()
    except OSError as error:
        problems.append((shown(path), f"cannot be read: {error.strerror}"))
        return last, None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or not is_integer(record.get("step")):
            continue
        here = look_of(line)
        last = last or ({"seconds": here.get("seconds")} if here else {}) | record
        if here is not None:
            return last, here
    return last, None
