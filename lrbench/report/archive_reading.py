"""A published table read back as the collection that it was made from."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import UserError
from lrbench.report.archive import SCHEMA, Settings
from lrbench.report.collect import Collection, gather
from lrbench.report.columns import EVALUATION_COLUMNS, RUN_COLUMNS
from lrbench.report.evaluations import Evaluation
from lrbench.report.finding import SETTINGS, TABLE, Found, cell_of
from lrbench.report.json_files import content, read_object
from lrbench.report.looks import EVERY
from lrbench.report.records import BySplit, Record
from lrbench.report.schema import is_integer
from lrbench.report.under_way import UNFINISHED, UnderWay

Row = dict[str, Any]
PARSERS: dict[str, Callable[[str], Any]] = {"Int64": int, "float64": float, "object": str}
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
    told = _settings_file(beside, table)
    try:
        varying = tuple(told["varying"])
        rows = _rows(table, varying)
        settings = _by_folder(told["settings"], rows, table, beside)
        looks = _looks(rows)
        records, under_way = _runs([row for row in rows if not _is_look(row)], settings, told)
        return Found(
            records=records,
            under_way=under_way,
            problems=[(Path(place), str(reason)) for place, reason in told["problems"]],
            unfinished=[Path(place) for place in told["unfinished"]],
            environments=told["environments"],
            varying=varying,
            looks=looks,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"does not fit {table.name}: {type(error).__name__} {error}"
        raise _damaged(beside, what) from error


def _is_look(row: Row) -> bool:
    return bool(row["which"] == EVERY)


def _looks(rows: list[Row]) -> dict[str, tuple[Evaluation, ...]]:
    """Every look of each run, which no rule's score is."""
    found: dict[str, list[Evaluation]] = {}
    for row in filter(_is_look, rows):
        found.setdefault(str(row["folder"]), []).append(_evaluation(row))
    return {folder: tuple(looks) for folder, looks in found.items()}


def _runs(
    rows: list[Row], settings: dict[str, Settings], told: dict[str, Any]
) -> tuple[list[Record], list[UnderWay]]:
    """The runs of the csv file, in its order: the rows of one stand together."""
    baselines = {
        folder: _baselines(one["measured"])
        for one in told["baselines"]
        for folder in one["folders"]
    }
    records, under_way = [], []
    for folder, group in groupby(rows, key=lambda row: str(row["folder"])):
        mine = list(group)
        if mine[0]["status"] == UNFINISHED:
            under_way.append(_under_way(mine, settings[folder], told["under_way"][folder]))
            continue
        row = {name: mine[0][name] for name in RUN_COLUMNS}
        scores = [_evaluation(one) for one in mine if one["split"] is not None]
        levels = baselines.get(folder, {})
        records.append(Record(Path(folder), row, settings[folder], scores, levels))
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
    told = read_object(path, problems, _complaint)
    if told is None:
        raise _damaged(path, problems[0][1])
    return told


def _complaint(data: Any) -> str | None:
    if not isinstance(data, dict):
        return "holds no object"
    for name, kind in PARTS.items():
        if not isinstance(data.get(name), kind):
            return f"'{name}' is missing or no {kind.__name__}"
    if not all(isinstance(one, dict) for one in data["environments"].values()):
        return "'environments' has one that is no object"
    if data["schema"] != SCHEMA:
        return f"schema {data['schema']}, this lrbench reads schema {SCHEMA}"
    return None


def _rows(path: Path, varying: tuple[str, ...]) -> list[Row]:
    """Every row of the csv file, each value of its column's type.

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
    for name, kind in {**RUN_COLUMNS, **EVALUATION_COLUMNS}.items():
        columns[name] = list(_parsed(path, name, PARSERS[kind], frame[name].tolist()))
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _texts(path: Path) -> pd.DataFrame:
    stream = io.BytesIO(content(path))
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_filter": False}
    frame: pd.DataFrame = pd.read_csv(stream, lineterminator="\n", index_col=False, **options)
    return frame


def _first_difference(found: list[str], wanted: list[str]) -> str:
    for name in wanted:
        if name not in found:
            return f"has no column '{name}'"
    other = next((name for name in found if name not in wanted), None)
    return f"has a column '{other}'" if other else "has its columns in another order"


def _parsed(path: Path, name: str, parse: Callable[[str], Any], texts: list[str]) -> Iterator[Any]:
    for line, text in enumerate(texts, start=2):
        try:
            yield parse(text) if text else None
        except ValueError as error:
            raise _damaged(path, f"row {line}, column '{name}': '{text[:40]}'") from error


def _by_folder(told: Settings, rows: list[Row], table: Path, beside: Path) -> dict[str, Settings]:
    """The settings of each run that has a row."""
    untold, found = set(told["untold"]), {}
    for folder in dict.fromkeys(row["folder"] for row in rows):
        cell = cell_of(str(folder))
        if folder not in untold and cell not in told["cells"]:
            raise UserError(
                f"'{table}' has a run in {folder}, of which '{beside}' knows nothing\n"
                "one of them was changed or is of another table\n"
                f"fix: take both from where they were published, or make them again"
            )
        own = told["all"] | told["cells"].get(cell, {}) | told["runs"].get(folder, {})
        found[folder] = {} if folder in untold else own
    return found


def _baselines(rows: list[dict[str, Any]]) -> BySplit:
    found: BySplit = {}
    for row in rows:
        found.setdefault(row["split"], {})[row["baseline"]] = (float(row["value"]), row["n"])
    return found


def _evaluation(row: Row) -> Evaluation:
    return tuple(row[name] for name in EVALUATION_COLUMNS)


def _under_way(rows: list[Row], settings: Settings, told: dict[str, Any]) -> UnderWay:
    """An unfinished run; its look is told beside its rows, which have only a part of it."""
    first = rows[0]
    budget, look = told["budget"], told["look"]
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
        look=look if isinstance(look, dict) else None,
        evaluations=tuple(_evaluation(row) for row in rows if row["kind"] == "test"),
    )


def _damaged(path: Path, what: str) -> UserError:
    return UserError(
        f"'{path}': {what}\n"
        "a published table of runs is read as it was written; one of measurements holds no runs\n"
        "fix: take it again from where it was published, or make it again from its runs"
    )
