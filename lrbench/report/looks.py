"""Looks of a run as rows of runs.csv: what its learning curve is drawn from.

metrics.jsonl has a line a look. A torn last line is normal, and after a crash some updates were
done twice: of two looks at one update the later counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lrbench.metrics import METRICS
from lrbench.report.columns import BY_SPLIT
from lrbench.report.evaluations import Evaluation
from lrbench.report.folders import Problems, shown
from lrbench.report.json_files import content
from lrbench.report.schema import is_integer, is_number

METRICS_FILE = "metrics.jsonl"
EVERY = "every"  # column `which` of a look that stands for no rule
MARK = b'"look"'


def read_looks(
    folder: Path, protocol: str, settings: Mapping[str, Any], problems: Problems
) -> tuple[Evaluation, ...]:
    """Return what each look of a run folder saw at the test length, or on the dev split.

    A file that cannot be read is named in `problems`.
    """
    path = folder / METRICS_FILE
    try:
        lines = content(path).splitlines()
    except OSError as error:
        problem = (shown(path), f"cannot be read: {error.strerror}")
        if problem not in problems:  # of an unfinished run it may have been named already
            problems.append(problem)
        return ()
    looks = {look["step"]: look for line in lines if MARK in line and (look := look_of(line))}
    rows = (row for look in looks.values() for row in look_rows(look, protocol, settings, EVERY))
    return tuple(row for row in rows if row[2] in METRICS)


def look_of(line: bytes) -> dict[str, Any] | None:
    """Return the look that a line of metrics.jsonl tells, None where it tells none."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    look = told.get("look") if isinstance(told, dict) else None
    return look if isinstance(look, dict) and is_integer(look.get("step")) else None


def look_rows(
    look: Mapping[str, Any], protocol: str, settings: Mapping[str, Any], which: str
) -> Iterator[Evaluation]:
    """Yield what a look saw, in the order of EVALUATION_COLUMNS; a dev split has no length."""
    if protocol in BY_SPLIT:
        split = str(settings.get("protocol.dev_split", "dev"))
        wanted = [(name, f"validation_{name}", "validation_n") for name in ("accuracy", "loss")]
        length = None
    else:
        split, length = "test", look.get("test_length")
        wanted = [(name, f"test_{name}", "test_n") for name in METRICS]
    for metric, name, strings in wanted:
        value: Any = look.get(name)
        n = look.get(strings)
        known = is_number(value) and math.isfinite(value) and is_integer(n)
        if known and (length is None or is_integer(length)):
            told = (length, split, metric, float(value), n, which, "look", look["step"])
            yield (*told, None, None, None)
