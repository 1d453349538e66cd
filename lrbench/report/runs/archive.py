"""A collection as files that can be published, runs.csv and settings.json; and back.

runs.csv is what `lrbench report --format csv` prints: every number, to the last digit.
settings.json has what a csv file has no place for, so that `read_archive` gives the collection
back and every table made of it is the same: settings with their types, what runs share written once
(`settings.all`), then what those of a cell share (`cells`), then a run's own (`runs`); baselines of
splits; what could not be used; how far unfinished runs are; each cell's environment; and how many
accuracies of a run were not measured, of which the csv file has an empty value. Where something is
known of checkpoints on all strings, certificates.csv beside them has it.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, TypedDict

import pandas as pd

from lrbench.errors import UserError
from lrbench.metrics import ACCURACY
from lrbench.report.runs.certificates import TABLE as CERTIFICATES
from lrbench.report.runs.certificates import answers_csv, parsed_answers
from lrbench.report.runs.collection import Collection, Found, cell_of, gather
from lrbench.report.runs.columns import (
    EVALUATION_COLUMNS,
    RUN_COLUMNS,
    UNFINISHED,
    Answers,
    BySplit,
    Environment,
    EvaluationRow,
    Looks,
    Record,
    Row,
    Settings,
    UnderWay,
    in_columns,
)
from lrbench.report.runs.files import content, read_object
from lrbench.report.runs.looks import EVERY, last_look_rows
from lrbench.report.runs.plausible import missing, number, run_complaint, score_complaint, whole
from lrbench.report.runs.schema import is_integer

TABLE, SETTINGS = "runs.csv", "settings.json"  # of a published table
SCHEMA = 1


def archive(collection: Collection, runs_dir: Path) -> dict[str, bytes]:
    """Return the files by name, the same bytes for the same runs.

    Paths in them are relative to `runs_dir`, where the runs were collected.
    """
    table = collection.csv()
    content = {
        "schema": SCHEMA,
        "varying": list(collection.varying),
        "settings": _shared(_settings(collection)),
        "baselines": _baseline_sets(collection),
        "environments": _environments(collection),
        "problems": [
            [_relative(path, runs_dir), _without(reason, runs_dir)]
            for path, reason in collection.problems
        ],
        "unfinished": [_relative(path, runs_dir) for path in collection.unfinished],
        "under_way": {
            run.folder: {"budget": run.budget, "look": run.look} for run in collection.under_way
        },
    }
    if unmeasured := _unmeasured(collection):
        content["unmeasured"] = unmeasured
    text = json.dumps(content, indent=1, sort_keys=True)
    files = {TABLE: table.encode(), SETTINGS: f"{text}\n".encode()}
    ended = set(collection.runs["folder"])
    known = {folder: answers for folder, answers in collection.answers.items() if folder in ended}
    return files | ({CERTIFICATES: answers_csv(known)} if known else {})


def _unmeasured(collection: Collection) -> dict[str, int]:
    """How many accuracies of each run are null in its files: they cannot be told from lost ones."""
    frame = collection.frame
    empty = frame[(frame["metric"] == ACCURACY.name) & frame["value"].isna()]
    found = Counter(map(str, empty["folder"]))
    metric, value = (list(EVALUATION_COLUMNS).index(name) for name in ("metric", "value"))
    for run in collection.under_way:
        nothing = [one[metric] == ACCURACY.name and one[value] is None for one in run.scores]
        found[run.folder] += sum(nothing)
    return dict(+found)


def _settings(collection: Collection) -> dict[str, Settings]:
    """The settings of every row's run: a collection that was narrowed keeps those of all."""
    ended = {folder: collection.settings[folder] for folder in collection.runs["folder"]}
    return ended | {run.folder: run.settings for run in collection.under_way}


def _shared(settings: Mapping[str, Settings]) -> dict[str, Any]:
    """Tell what is the same in all runs that tell their settings once, then the same by cell."""
    recorded = {folder: run for folder, run in settings.items() if run}
    common = _common(recorded.values())
    by_cell: dict[str, list[Settings]] = {}
    for folder, run in recorded.items():
        by_cell.setdefault(cell_of(folder), []).append(run)
    cells = {cell: _less(_common(runs), common) for cell, runs in by_cell.items()}
    runs = {
        folder: own
        for folder, run in recorded.items()
        if (own := _less(_less(run, common), cells[cell_of(folder)]))
    }
    silent = [folder for folder, run in settings.items() if not run]
    return {"all": common, "cells": cells, "runs": runs, "untold": silent}


def _common(settings: Iterable[Settings]) -> Settings:
    """What is in all of them, equal and of one type: True is not 1, and 1 is not 1.0."""
    first, *rest = [*settings] or [{}]
    return {
        key: value
        for key, value in first.items()
        if all(key in other and repr(other[key]) == repr(value) for other in rest)
    }


def _less(settings: Settings, known: Settings) -> Settings:
    return {key: value for key, value in settings.items() if key not in known}


def _baseline_sets(collection: Collection) -> list[dict[str, Any]]:
    """The baselines that runs measured, each set once with the folders of its runs.

    As lists, because of equally good ones the first is named.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in collection.runs["folder"]:
        if folder in collection.baselines:
            rows = _listed(collection.baselines[folder])
            here = found.setdefault(json.dumps(rows), {"folders": [], "measured": rows})
            here["folders"].append(folder)
    return list(found.values())


def _listed(baselines: BySplit) -> list[BaselineRow]:
    return [
        {"split": split, "baseline": name, "value": value, "n": n}
        for split, levels in baselines.items()
        for name, (value, n) in levels.items()
    ]


def _environments(collection: Collection) -> dict[str, Environment]:
    """Those of the cells that have a row, without paths of the machine."""
    cells = {cell_of(folder) for folder in _settings(collection)}
    return {
        cell: {name: value for name, value in environment.items() if not _is_path(value)}
        for cell, environment in collection.environments.items()
        if cell in cells
    }


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("/", "~"))


def _relative(path: Path, root: Path) -> str:
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def _without(reason: str, root: Path) -> str:
    return reason.replace(f"{root}/", "") if root.parts else reason


class BaselineRow(TypedDict):
    """What a lookup reaches on a split, as settings.json has it."""

    split: str
    baseline: str
    value: float
    n: int | None


PARSERS: dict[str, Callable[[str], Any]] = {"Int64": whole, "float64": number, "object": str}
PARTS = {
    "schema": int,
    "varying": list,
    "settings": dict,
    "baselines": list,
    "environments": dict,
    "problems": list,
    "unfinished": list,
    "under_way": dict,
}


def read_archive(path: Path) -> Collection:
    """Return the collection of a published table; raises UserError as `find_in_archive` does."""
    return gather(find_in_archive(path))


def find_in_archive(path: Path) -> Found:
    """Return what a published table tells of runs: a folder that holds it, or its csv file.

    Raises UserError where either file is missing, damaged or does not fit the other.
    """
    table = path if path.suffix == ".csv" else path / TABLE
    beside = table.with_name(SETTINGS)
    stored = _settings_file(beside, table)
    try:
        varying = tuple(stored["varying"])
        rows = _rows(table, varying)
        if wrong := run_complaint(rows) or score_complaint(rows, stored.get("unmeasured", {})):
            raise _damaged(table, wrong)
        settings = _by_folder(stored, rows, table, beside)
        looks = _looks(rows)
        answers = _answers(table.with_name(CERTIFICATES), settings)
        scores = [row for row in rows if not _is_look(row)]
        records, under_way = _runs(scores, settings, stored, answers)
        return Found(
            records=records,
            under_way=under_way,
            problems=[(Path(place), str(reason)) for place, reason in stored["problems"]],
            unfinished=[Path(place) for place in stored["unfinished"]],
            environments=stored["environments"],
            varying=varying,
            looks=looks,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"does not fit {table.name}: {type(error).__name__} {error}"
        raise _damaged(beside, what) from error


def ended_runs(path: Path) -> list[tuple[Row, Settings]]:
    """Return the ended runs of a published table's folder with their settings, without any score.

    Raises UserError as `find_in_archive` does, in a fraction of its time.
    """
    table, beside = path / TABLE, path / SETTINGS
    stored = _settings_file(beside, table)
    rows = _rows(table, tuple(stored["varying"]), of_runs=True)
    settings = _by_folder(stored, rows, table, beside)
    return [(row, settings[str(row["folder"])]) for row in rows if row["status"] != UNFINISHED]


def _is_look(row: Row) -> bool:
    return bool(row["which"] == EVERY)


def _looks(rows: list[Row]) -> dict[str, Looks]:
    """Every look of each run, which no rule's score is."""
    found: dict[str, list[EvaluationRow]] = {}
    for row in filter(_is_look, rows):
        found.setdefault(str(row["folder"]), []).append(_evaluation(row))

    def known(looks: list[EvaluationRow]) -> Looks:
        return lambda _: tuple(looks)

    return {folder: known(looks) for folder, looks in found.items()}


def _answers(path: Path, runs: Mapping[str, Settings]) -> dict[str, Answers]:
    """What is known on all strings, where a table has such a file."""
    if not path.exists():
        return {}
    try:
        answers = parsed_answers(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)[:200]) from error
    for folder in answers:
        if folder not in runs:
            raise _damaged(path, f"has a run in {folder[:100]}, which {TABLE} has not")
    return answers


def _runs(
    rows: list[Row],
    settings: dict[str, Settings],
    stored: dict[str, Any],
    answers: Mapping[str, Answers],
) -> tuple[list[Record], list[UnderWay]]:
    """The runs of the csv file, in its order: the rows of one stand together."""
    baselines = {
        folder: _baselines(one["measured"])
        for one in stored["baselines"]
        for folder in one["folders"]
    }
    records, under_way = [], []
    for folder, group in groupby(rows, key=lambda row: str(row["folder"])):
        mine = list(group)
        if mine[0]["status"] == UNFINISHED:
            under_way.append(_under_way(mine, settings[folder], stored["under_way"][folder]))
            continue
        row = {name: mine[0][name] for name in RUN_COLUMNS}
        scores = in_columns(_evaluation(one) for one in mine if one["split"] is not None)
        levels = baselines.get(folder, {})
        known = answers.get(folder, {})
        records.append(Record(Path(folder), row, settings[folder], scores, levels, known))
    return records, under_way


def _settings_file(path: Path, table: Path) -> dict[str, Any]:
    if not path.exists():
        raise UserError(
            f"no {path.name} beside '{table}'\n"
            "a published table is two files: numbers are in the csv, what they were made with in"
            f" {path.name}\n"
            "fix: put both into one folder, or name the folder of runs with --runs"
        )
    problems: list[tuple[Path, str]] = []
    stored = read_object(path, problems, _complaint)
    if stored is None:
        raise _damaged(path, problems[0][1])
    return stored


def _complaint(data: Any) -> str | None:
    if not isinstance(data, dict):
        return "holds no object"
    for name, expected in PARTS.items():
        if not isinstance(data.get(name), expected):
            return f"'{name}' is missing or no {expected.__name__}"
    if not all(isinstance(one, dict) for one in data["environments"].values()):
        return "'environments' has one that is no object"
    if data["schema"] != SCHEMA:
        return f"schema {data['schema']}, this lrbench reads schema {SCHEMA}"
    return None


def _rows(path: Path, varying: tuple[str, ...], of_runs: bool = False) -> list[Row]:
    """Every row of the csv file, each value of its column's type; or one of each run, no scores.

    Read as text and parsed one by one: int and float give back what was printed, whole.
    """
    wanted = [*RUN_COLUMNS, *EVALUATION_COLUMNS, *varying]
    try:
        frame = _texts(path)
    except (OSError, ValueError) as error:  # of which pandas' own are
        raise _damaged(path, f"cannot be read: {' '.join(str(error).split())[:200]}") from error
    if list(frame.columns) != wanted:
        wrong = _first_difference(list(frame.columns), wanted)
        raise _damaged(path, f"{wrong}, against the layout that {SETTINGS} beside it tells")
    columns: dict[str, list[Any]] = {}
    if of_runs:
        frame = frame[[*RUN_COLUMNS]].drop_duplicates("folder")
    for name, dtype in (RUN_COLUMNS if of_runs else {**RUN_COLUMNS, **EVALUATION_COLUMNS}).items():
        columns[name] = _parsed(path, name, PARSERS[dtype], frame[name].tolist())
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _texts(path: Path) -> pd.DataFrame:
    data = content(path)
    if not data.endswith(b"\n"):
        raise ValueError("its last line has no end: it was cut")
    if data.partition(b"\n")[0].endswith(b"\r"):  # went through Windows; a value may have one too
        data = data.replace(b"\r\n", b"\n")
    stream = io.BytesIO(data)
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_filter": False}
    frame: pd.DataFrame = pd.read_csv(stream, lineterminator="\n", index_col=False, **options)
    return frame


def _first_difference(found: list[str], wanted: list[str]) -> str:
    for name in wanted:
        if name not in found:
            return f"has no column '{name}'"
    other = next((name for name in found if name not in wanted), None)
    return f"has a column '{other}'" if other else "has its columns in another order"


def _parsed(path: Path, name: str, parse: Callable[[str], Any], texts: list[str]) -> list[Any]:
    """The values of a column; each different text is parsed once, and most stand in many rows."""
    values: dict[str, Any] = {}
    for text in dict.fromkeys(texts):
        try:
            values[text] = parse(text) if text else None
        except ValueError as error:
            line = texts.index(text) + 2
            raise _damaged(path, f"row {line}, column '{name}': '{text[:40]}'") from error
    return [values[text] for text in texts]


def _by_folder(
    told: dict[str, Any], rows: list[Row], table: Path, beside: Path
) -> dict[str, Settings]:
    """The settings of each run that has a row, which all runs have that settings.json tells of."""
    stored = told["settings"]
    unrecorded, found = set(stored["untold"]), {}
    for folder in dict.fromkeys(row["folder"] for row in rows):
        cell = cell_of(str(folder))
        if folder not in unrecorded and cell not in stored["cells"]:
            raise UserError(
                f"'{table}' has a run in {folder}, of which '{beside}' knows nothing\n"
                "one of them was changed or is of another table\n"
                "fix: take both from where they were published, or make them again"
            )
        own = stored["all"] | stored["cells"].get(cell, {}) | stored["runs"].get(folder, {})
        found[folder] = {} if folder in unrecorded else own
    measured = [folder for one in told["baselines"] for folder in one["folders"]]
    if gone := missing(rows, stored, [*measured, *told["under_way"]]):
        more = f" and of {len(gone) - 1} more" if len(gone) > 1 else ""
        raise UserError(
            f"'{table}' has no row of {gone[0][:200]}{more}, which '{beside}' tells of\n"
            "the csv file was cut, or is of another table\n"
            "fix: take both from where they were published, or make them again"
        )
    return found


def _baselines(rows: list[BaselineRow]) -> BySplit:
    found: BySplit = {}
    for row in rows:
        found.setdefault(row["split"], {})[row["baseline"]] = (float(row["value"]), row["n"])
    return found


def _evaluation(row: Row) -> EvaluationRow:
    return tuple(row[name] for name in EVALUATION_COLUMNS)


def _under_way(rows: list[Row], settings: Settings, stored: dict[str, Any]) -> UnderWay:
    """An unfinished run; its look is told beside its rows, which have only a part of it."""
    first = rows[0]
    budget = stored["budget"]
    look = stored["look"] if isinstance(stored["look"], dict) else None
    return UnderWay(
        task=first["task"],
        model=first["model"],
        protocol=first["protocol"],
        fingerprint=first["fingerprint"],
        seed=first["seed"],
        folder=first["folder"],
        settings=settings,
        steps=first["steps"],
        seconds=first["train_seconds"],
        budget=budget if is_integer(budget) else None,
        look=look,
        look_scores=last_look_rows(look, first["protocol"], settings),
        evaluations=tuple(_evaluation(row) for row in rows if row["kind"] not in (None, "look")),
    )


def _damaged(path: Path, what: str) -> UserError:
    return UserError(
        f"'{path}': {what}\n"
        "a published table of runs is read as it was written; one of measurements holds no runs\n"
        "fix: take it again from where it was published, or make it again from its runs"
    )


def is_archive(path: Path) -> bool:
    """Tell whether a path is a published table: a csv file, or a folder with it and its json."""
    try:
        if path.suffix == ".csv":
            return path.is_file()
        return all((path / name).is_file() for name in (TABLE, SETTINGS))
    except (OSError, ValueError):
        return False
