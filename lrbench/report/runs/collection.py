"""Runs as tidy frames, each run once: what every table and figure is made of.

Frames are made column by column, of columns: an object for each of 100,000 evaluations would take
longer and several times the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lrbench.protocols.base import declared
from lrbench.report.runs.columns import (
    EVALUATION_COLUMNS,
    RUN_COLUMNS,
    Answers,
    BySplit,
    Columns,
    Environment,
    Evaluations,
    Looks,
    Problems,
    Record,
    Row,
    Settings,
    UnderWay,
    in_columns,
)

NOT_MEASURED: Evaluations = ((None,),) * len(EVALUATION_COLUMNS)


def varying(settings: list[Settings]) -> tuple[str, ...]:
    """Return the keys on which runs differ; one with a fixed column is told there, as it was."""
    taken = {*RUN_COLUMNS, *EVALUATION_COLUMNS}
    objects: dict[str, dict[int, Any]] = {}  # runs of a cell have many in common
    runs_with = Counter(name for run in settings for name in run)
    for run in settings:
        for name, value in run.items():
            objects.setdefault(name, {})[id(value)] = value
    values = {name: set(map(repr, found.values())) for name, found in objects.items()}
    for name, different in values.items():
        in_all = runs_with[name] == len(settings)
        if not in_all and not name.startswith("versions"):  # a failed run does not have these
            different.add(repr(None))
    return tuple(sorted(name for name in values.keys() - taken if len(values[name]) > 1))


def run_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Return a row for each run."""
    columns = [*zip(*map(itemgetter(*RUN_COLUMNS), rows), strict=True)] or [()] * len(RUN_COLUMNS)
    named = zip(RUN_COLUMNS.items(), columns, strict=True)
    return pd.DataFrame({name: _column([*values], dtype) for (name, dtype), values in named})


def settings_frame(settings: Mapping[str, Settings], keys: Sequence[str]) -> pd.DataFrame:
    """Return a row for each run's folder, with a column for each of the settings `keys`."""
    values = np.empty((len(settings), len(keys)), dtype=object)  # a Series each takes long
    for place, run in enumerate(settings.values()):
        values[place] = [*map(run.get, keys)]
    return pd.DataFrame(values, index=[*settings], columns=[*keys], dtype=object)


def _column(values: list[Any], dtype: str) -> pd.Series[Any]:
    if dtype == "Int64" and None not in values:  # pandas looks at each value, and takes long
        return pd.Series(pd.array(np.array(values, dtype=np.int64), dtype="Int64"))
    return pd.Series(values, dtype=dtype)


def _joined(parts: Sequence[tuple[Any, ...]], dtype: str) -> pd.Series[Any]:
    """Return the column that runs' parts are together; most runs share theirs with others."""
    if dtype == "float64":  # few share these: all of them at once; None becomes nan
        return pd.Series(np.array([*chain.from_iterable(parts)], dtype))
    if dtype == "Int64":
        values = _repeated(
            parts, lambda part: [0 if one is None else one for one in part], np.int64
        )
        missing = _repeated(parts, lambda part: [one is None for one in part], bool)
        return pd.Series(pd.arrays.IntegerArray(values, missing))
    return pd.Series(_repeated(parts, list, object), dtype=dtype)


def _repeated(
    parts: Sequence[tuple[Any, ...]], read: Callable[[tuple[Any, ...]], list[Any]], dtype: type
) -> np.ndarray:
    """What is read of parts, one after another; of a part that stands there again, once."""
    made: dict[int, np.ndarray] = {}
    for part in parts:
        if id(part) not in made:
            made[id(part)] = np.empty(len(part), dtype)
            made[id(part)][:] = read(part)
    return np.concatenate([made[id(part)] for part in parts] or [np.empty(0, dtype)])


def evaluation_frame(runs: pd.DataFrame, evaluations: Sequence[Evaluations]) -> pd.DataFrame:
    """Repeat the row of each run for each of its evaluations, and put these beside it.

    Without the settings: no table needs them here, and of 100,000 rows they are most of the memory.
    """
    scored = [columns if columns[0] else NOT_MEASURED for columns in evaluations]
    row_numbers = np.repeat(np.arange(len(scored)), [len(columns[0]) for columns in scored])
    # As a series first: pandas finds which are of text, and looks at each run's once.
    known = {name: pd.Series(runs[name].array, copy=False) for name in RUN_COLUMNS}
    columns: dict[str, Any] = {name: one.array.take(row_numbers) for name, one in known.items()}
    for place, (name, dtype) in enumerate(EVALUATION_COLUMNS.items()):
        columns[name] = _joined([one[place] for one in scored], dtype)
    return pd.DataFrame(columns, copy=False)


@dataclass(frozen=True)
class Found:
    """Everything below one folder; the folders of runs are relative to it.

    `problems` are files that could not be used, each with the reason, `unfinished` run folders
    without a result, of which `under_way` are those that tell how far they are. `environments` has
    each cell's environment.json, by the cell's folder. `varying` are the settings with a column,
    where a published table has told which. `looks` has a function for each
    run's folder, which reads what the looks of the run saw.
    """

    records: list[Record] = field(default_factory=list)
    under_way: list[UnderWay] = field(default_factory=list)
    problems: Problems = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    environments: dict[str, Environment] = field(default_factory=dict)
    varying: tuple[str, ...] | None = None
    looks: dict[str, Looks] = field(default_factory=dict)

    def below(self, root: Path) -> Found:
        """Return the same with the runs' folders as seen from where `root` is."""
        place = (root.parent if root.suffix == ".csv" else root).as_posix()
        return replace(
            self,
            records=[
                replace(one, row=one.row | {"folder": f"{place}/{one.row['folder']}"})
                for one in self.records
            ],
            under_way=[replace(run, folder=f"{place}/{run.folder}") for run in self.under_way],
            environments={
                f"{place}/{cell}": environment for cell, environment in self.environments.items()
            },
            looks={f"{place}/{folder}": rows for folder, rows in self.looks.items()},
            varying=None,
        )


@dataclass(frozen=True)
class Collection:
    """Every run found below one or several folders.

    `frame` has a row per run and evaluation (one row with empty cells for a run without any),
    `runs` a row per run; `settings` has the configuration keys and `versions.*` of each run's
    `folder`. A published table tells which of them have a column: `told_varying`.
    `baselines` has those of each split, for runs over a corpus, by `folder`.
    `problems` are files that could not be used, each with the reason; `unfinished` are run folders
    without a result. Every run folder is in exactly one of `runs`, `problems` and `unfinished`.
    `under_way` tells of the unfinished ones that tell it how far they are: neither `frame` nor
    `runs` has them, `every_row` does. `environments` has each cell's environment.json, by the
    cell's folder, and `looks` reads what each look of a run saw, by its folder: only `every_row`
    does. `answers` has what is known of the checkpoints of a run on all strings, by its folder and
    the rule.
    """

    frame: pd.DataFrame
    runs: pd.DataFrame
    settings: dict[str, Settings]
    problems: Problems
    unfinished: list[Path]
    baselines: dict[str, BySplit] = field(default_factory=dict)
    under_way: list[UnderWay] = field(default_factory=list)
    environments: dict[str, Environment] = field(default_factory=dict)
    looks: dict[str, Looks] = field(default_factory=dict)
    answers: dict[str, Answers] = field(default_factory=dict)
    told_varying: tuple[str, ...] | None = None

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The settings that are not the same in all runs: few reports ask for them."""
        if self.told_varying is not None:
            return self.told_varying
        return varying([settings for settings in self.settings.values() if settings])

    def with_settings(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with a column for each of `varying`, by their `folder`."""
        told = {run.folder: run.settings for run in self.under_way} | self.settings
        return rows.join(settings_frame(told, self.varying), on="folder")

    @property
    def every_row(self) -> pd.DataFrame:
        """The rows of runs.csv: `every_score`, with a column for each of `varying`."""
        return self.with_settings(self.every_score)

    def csv(self) -> str:
        """Return runs.csv: `every_row` as pandas writes it, in a fraction of its time.

        What the rows of a run share is written once: of two hundred columns eleven are left.
        """
        rows, runs = self.every_score, self.every_run[[*RUN_COLUMNS]]
        settings = self.with_settings(runs)[list(self.varying)]
        settings.insert(0, "", "")  # begins with a comma
        places = ["", *runs["folder"]]
        before = dict(zip(places, _lines(runs), strict=True))
        own = _lines(settings) if self.varying else [""] * len(places)
        after = dict(zip(places, own, strict=True))
        scores = zip(["", *rows["folder"]], _lines(rows[[*EVALUATION_COLUMNS]]), strict=True)
        return "".join([f"{before[run]},{score}{after[run]}\n" for run, score in scores])

    @property
    def every_score(self) -> pd.DataFrame:
        """`frame`, below it the rows of unfinished runs, then every look.

        Nothing is counted over the latter: a table has its numbers from `frame` and `runs`.
        """
        scores = [in_columns(run.scores) for run in self.under_way]
        unfinished = evaluation_frame(self._unfinished, scores)
        runs = self.every_run
        there = [folder for folder in runs["folder"] if folder in self.looks]
        read = {folder: self.looks[folder](self.problems) for folder in there}
        looks = {folder: rows for folder, rows in read.items() if rows}
        looking = runs[runs["folder"].isin(looks)].reset_index(drop=True)
        seen = evaluation_frame(looking, [in_columns(looks[one]) for one in looking["folder"]])
        parts = [part for part in (self.frame, unfinished, seen) if len(part)]
        rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else (parts or [self.frame])[0]
        return rows

    @cached_property
    def every_run(self) -> pd.DataFrame:
        """A row per run: `runs`, and below it those with status 'unfinished'."""
        if not self.under_way:
            return self.runs
        more = self._unfinished
        return pd.concat([self.runs, more], ignore_index=True) if len(self.runs) else more

    def runs_of(self, protocol: str, task: str, model: str) -> pd.DataFrame:
        """Return the rows of `runs` of one protocol, task and model."""
        return self.runs.iloc[self._rows_of.get((protocol, task, model), [])]

    def scores_of(self, protocol: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return these columns of the rows of `frame` of one protocol."""
        return self.frame[[*columns]].take(self._scores_of.get(protocol, []))

    @cached_property
    def _scores_of(self) -> dict[str, Any]:
        places = self.frame.groupby("protocol", sort=False).indices
        return {str(protocol): rows for protocol, rows in places.items()}

    @cached_property
    def _rows_of(self) -> dict[tuple[str, str, str], list[int]]:
        found: dict[tuple[str, str, str], list[int]] = {}
        names = [self.runs[name].tolist() for name in ("protocol", "task", "model")]
        for row, place in enumerate(zip(*names, strict=True)):
            found.setdefault(place, []).append(row)
        return found

    def settings_of(self, folder: str) -> Settings:
        """Return the settings of a run, whether it has ended or not."""
        if folder in self.settings:
            return self.settings[folder]
        return next(run.settings for run in self.under_way if run.folder == folder)

    @cached_property
    def _unfinished(self) -> pd.DataFrame:
        return run_frame([run.row for run in self.under_way])


def _each_under_way(found: Iterable[UnderWay], ended: set[tuple[Any, ...]]) -> list[UnderWay]:
    """Return runs once each, sorted; not those that have `ended` in another folder.

    Of two copies the one that has gone further counts.
    """
    furthest: dict[tuple[Any, ...], UnderWay] = {}
    for run in found:
        known = furthest.setdefault(run.key, run)
        if run.steps > known.steps:
            furthest[run.key] = run
    return [furthest[key] for key in sorted(furthest) if key not in ended]


def gather(found: Found) -> Collection:
    """Return what was found as a collection: each run once, sorted."""
    problems = list(found.problems)
    ordered = _each_once(found.records, problems)
    under_way = _each_under_way(found.under_way, {record.key for record in ordered})
    used = {cell_of(one.row["folder"]) for one in ordered} | {cell_of(r.folder) for r in under_way}
    environments = {
        cell: environments for cell, environments in found.environments.items() if cell in used
    }
    made = _collection(ordered, problems, found.unfinished, under_way, environments, found.varying)
    return replace(made, looks=found.looks)


def _collection(
    ordered: Sequence[Record],
    problems: Problems,
    unfinished: list[Path],
    under_way: list[UnderWay],
    environments: dict[str, Environment],
    keys: tuple[str, ...] | None,
) -> Collection:
    """Return the frames of runs in their order; `keys` are the settings that vary, if known."""
    runs = run_frame([record.row for record in ordered])
    return Collection(
        frame=evaluation_frame(runs, [record.evaluations for record in ordered]),
        runs=runs,
        settings={record.row["folder"]: record.settings for record in ordered},
        problems=problems,
        unfinished=unfinished,
        baselines={r.row["folder"]: r.baselines for r in ordered if r.baselines},
        under_way=under_way,
        environments=environments,
        answers={r.row["folder"]: r.answers for r in ordered if r.answers},
        told_varying=keys,
    )


def _each_once(found: list[Record], problems: Problems) -> list[Record]:
    """Return one record for each run, sorted; a copy of it, counted twice, would shrink intervals.

    Of two folders the first is used, but a failure never in the place of a result.
    """
    used: dict[tuple[Any, ...], Record] = {}
    for record in sorted(found, key=lambda record: record.row["status"] == "failed"):
        first = used.setdefault(record.key, record)
        if first is not record:
            same = first.evaluations == record.evaluations
            other = "" if same else ", with other or further scores"
            problems.append(
                (record.folder, f"the same run as {first.folder}, which is used{other}")
            )
    return sorted(used.values(), key=lambda record: record.key)


class _Written(list[str]):
    """What a csv writer writes: a text a row."""

    write = list.append


def _lines(rows: pd.DataFrame) -> list[str]:
    """Return a frame as lines of csv without their ends, the first of its columns."""
    written: Any = _Written()
    rows.to_csv(written, index=False, lineterminator="\n")
    return [line[:-1] for line in written]


def groups(rows: pd.DataFrame | Columns, by: Sequence[str]) -> list[Columns]:
    """Return rows in groups of equal values of the columns `by`, sorted by these.

    As a list a column: a table looks at each column of thousands of groups, and a frame's groupby
    takes ten times as long.
    """
    if isinstance(rows, pd.DataFrame):
        rows = {str(name): rows[name].tolist() for name in rows}
    keys = list(zip(*(rows[name] for name in by), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return [
        {name: [values[place] for place in places] for name, values in rows.items()}
        for places in (list(group) for _, group in groupby(order, keys.__getitem__))
    ]


def cell_of(folder: str) -> str:
    """Return the folder of the cell of a run's folder."""
    ends = f"/{folder}/"
    if "//" in ends or "/./" in ends:  # absolute, or with what a path leaves out
        return Path(folder).parent.as_posix()
    return folder.rpartition("/")[0] or "."


def by_split(protocols: pd.Series) -> pd.Series[bool]:
    """Tell for each protocol of a column whether it scores on the splits of a corpus."""
    return protocols.isin([name for name in set(protocols) if declared(str(name)).by_split])
