"""Looks of a run, from metrics.jsonl, and how far a run without a result is.

metrics.jsonl has a line a look. A torn last line is normal, and after a crash some updates were
done twice: of two looks at one update the later counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrbench.metrics import METRICS
from lrbench.protocols.base import declared
from lrbench.report.runs.columns import CELL, RUN_COLUMNS
from lrbench.report.runs.files import Problems, content, read_object, shown
from lrbench.report.runs.record import FOLDER, Evaluation, evaluation, flat, further_rows, place_of
from lrbench.report.runs.schema import config_complaint, is_integer, is_number

METRICS_FILE = "metrics.jsonl"
EVERY = "every"  # column `which` of a look that stands for no rule
MARK = b'"look"'
UNFINISHED = "unfinished"


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
    own = _own(settings)
    rows = (row for look in looks.values() for row in look_rows(look, protocol, own, EVERY))
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
    look: Mapping[str, Any], protocol: str, own: Mapping[str, Any], which: str
) -> Iterator[Evaluation]:
    """Yield what a look saw, in the order of EVALUATION_COLUMNS; a dev split has no length.

    `own` are the settings of the protocol by their own names: once a run, there are many looks.
    """
    for seen in declared(protocol).look_values(look, own):
        known = is_number(seen.value) and math.isfinite(seen.value) and is_integer(seen.n)
        if known and (seen.length is None or is_integer(seen.length)):
            told = (seen.length, seen.split, seen.metric, float(seen.value), seen.n)
            yield (*told, which, "look", look["step"], None, None, None)


def _own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the protocol itself, by their own names."""
    start = "protocol."
    return {k.removeprefix(start): v for k, v in settings.items() if k.startswith(start)}


@dataclass(frozen=True)
class UnderWay:
    """A run without a result: running, or interrupted and to be resumed.

    `steps` are the updates done, of a `budget` where that is known, in `seconds`; `look` is the
    last of its looks, as metrics.jsonl has it, and `evaluations` are those of lrbench evaluate, of
    the checkpoint that there was at the time. `folder` is relative to the folder of runs.
    """

    task: str
    model: str
    protocol: str
    fingerprint: str
    seed: int
    folder: str
    settings: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    seconds: float | None = None
    budget: int | None = None
    look: dict[str, Any] | None = None
    evaluations: tuple[Evaluation, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        return (*(getattr(self, name) for name in CELL), self.seed)

    @property
    def row(self) -> dict[str, Any]:
        """Its row of runs.csv."""
        told = {name: getattr(self, name) for name in (*CELL, "seed", "steps", "folder")}
        more = {"status": UNFINISHED, "train_seconds": self.seconds}
        return dict.fromkeys(RUN_COLUMNS) | told | more

    @property
    def scores(self) -> list[Evaluation]:
        """Its evaluations in runs.csv: the last look, which is that of rule last, and the others.

        A dev split has no length.
        """
        return [*self._last_look(), *self.evaluations]

    def _last_look(self) -> Iterator[Evaluation]:
        return look_rows(self.look or {}, self.protocol, _own(self.settings), "last")

    @property
    def told_look(self) -> str:
        """What the last look saw, such as '0.691 on dev', nothing where there was none."""
        for row in map(_named, self._last_look()):
            if row["metric"] in METRICS:
                title = METRICS[row["metric"]].title if row["metric"] != "accuracy" else ""
                place = f"at {row['length']}" if row["length"] else f"on {row['split']}"
                return " ".join(filter(None, [title, f"{row['value']:.3f}", place]))
        return ""


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
    named = [(config or {}).get(kind) for kind in ("task", "model", "protocol")]
    kinds = [one.get("name") if isinstance(one, dict) else None for one in named]
    seed = int(folder.absolute().name[1:])
    if config is None or not all(isinstance(kind, str) for kind in kinds) or not is_integer(seed):
        return None
    last, look = _progress(folder / "metrics.jsonl", problems)
    settings = flat(config)
    rows = further_rows(folder, problems) if FOLDER in names else []
    task, model, protocol = map(str, kinds)
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
        evaluations=tuple(map(evaluation, rows)),
    )


def each_under_way(found: Iterable[UnderWay], ended: set[tuple[Any, ...]]) -> list[UnderWay]:
    """Return runs once each, sorted; not those that have `ended` in another folder.

    Of two copies the one that has gone further counts.
    """
    furthest: dict[tuple[Any, ...], UnderWay] = {}
    for run in found:
        known = furthest.setdefault(run.key, run)
        if run.steps > known.steps:
            furthest[run.key] = run
    return [furthest[key] for key in sorted(furthest) if key not in ended]


def _progress(path: Path, problems: Problems) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The last whole line of metrics.jsonl that tells an update, and the last look."""
    last: dict[str, Any] = {}
    try:
        lines = content(path).splitlines()
    except OSError as error:
        problems.append((shown(path), f"cannot be read: {error.strerror}"))
        return last, None
    for line in reversed(lines):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(told, dict) or not is_integer(told.get("step")):
            continue
        here = look_of(line)
        last = last or ({"seconds": here.get("seconds")} if here else {}) | told
        if here is not None:
            return last, here
    return last, None


def _named(row: Evaluation) -> dict[str, Any]:
    return dict(zip(("length", "split", "metric", "value", "n"), row, strict=False))
