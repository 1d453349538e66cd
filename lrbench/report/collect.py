"""Gather the runs below folders into tidy frames, each run once.

Frames are made column by column, and an evaluation is kept as a tuple: a dictionary for each of
100,000 rows would take longer and several times the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.report.evaluations import Evaluation
from lrbench.report.finding import Found, cell_of, find
from lrbench.report.folders import Problems
from lrbench.report.frames import evaluation_frame, run_frame, varying
from lrbench.report.records import BySplit, Record
from lrbench.report.under_way import UnderWay, each_under_way


@dataclass(frozen=True)
class Collection:
    """Every run found below one or several folders.

    `frame` has a row per run and evaluation (one row with empty cells for a run without any),
    `runs` a row per run, and a column for each configuration key and each `versions.*` that is not
    the same in all runs, `varying`; `settings` has all of them for each run's `folder`.
    `baselines` has those of each split, for runs over a corpus, by `folder`.
    `problems` are files that could not be used, each with the reason; `unfinished` are run folders
    without a result. Every run folder is in exactly one of `runs`, `problems` and `unfinished`.
    `under_way` tells of the unfinished ones that tell it how far they are: neither `frame` nor
    `runs` has them, `every_row` does. `environments` has each cell's environment.json, by the
    cell's folder, and `looks` what each look of a run saw, by its folder.
    """

    frame: pd.DataFrame
    runs: pd.DataFrame
    varying: tuple[str, ...]
    settings: dict[str, dict[str, Any]]
    problems: Problems
    unfinished: list[Path]
    baselines: dict[str, BySplit] = field(default_factory=dict)
    under_way: list[UnderWay] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: dict[str, tuple[Evaluation, ...]] = field(default_factory=dict)

    @property
    def every_row(self) -> pd.DataFrame:
        """The rows of runs.csv: `frame`, below it those of unfinished runs, then every look.

        Nothing is counted over the latter: a table has its numbers from `frame` and `runs`.
        """
        scores = [run.scores for run in self.under_way]
        unfinished = evaluation_frame(self._unfinished, scores)
        runs = self.every_run
        looking = runs[runs["folder"].isin(self.looks)]
        looks = [self.looks[folder] for folder in looking["folder"]]
        seen = evaluation_frame(looking.reset_index(drop=True), looks)
        parts = [part for part in (self.frame, unfinished, seen) if len(part)]
        rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else (parts or [self.frame])[0]
        return rows.join(runs.set_index("folder")[list(self.varying)], on="folder")

    @property
    def every_run(self) -> pd.DataFrame:
        """A row per run: `runs`, and below it those with status 'unfinished'."""
        if not self.under_way:
            return self.runs
        more = self._unfinished
        return pd.concat([self.runs, more], ignore_index=True) if len(self.runs) else more

    def settings_of(self, folder: str) -> dict[str, Any]:
        """Return the settings of a run, whether it has ended or not."""
        if folder in self.settings:
            return self.settings[folder]
        return next(run.settings for run in self.under_way if run.folder == folder)

    @property
    def _unfinished(self) -> pd.DataFrame:
        runs = self.under_way
        return run_frame([run.row for run in runs], [run.settings for run in runs], self.varying)


def collect(*runs_dirs: Path) -> Collection:
    """Read every run below the folders, each of them a folder of runs or a published table.

    Of several, a run's `folder` begins with the one that it was found in, and a run that is in two
    counts where it was found first. Raises UserError as `find` does.
    """
    roots = list(dict.fromkeys(Path(root) for root in runs_dirs))
    found = [find(root) for root in roots]
    if len(found) == 1:
        return gather(found[0])
    return gather(_together([one.below(root) for one, root in zip(found, roots, strict=True)]))


def gather(found: Found) -> Collection:
    """Return what was found as a collection: each run once, sorted."""
    problems = list(found.problems)
    ordered = _each_once(found.records, problems)
    under_way = each_under_way(found.under_way, {record.key for record in ordered})
    used = {cell_of(one.row["folder"]) for one in ordered} | {cell_of(r.folder) for r in under_way}
    told = {cell: told for cell, told in found.environments.items() if cell in used}
    made = _collection(ordered, problems, found.unfinished, under_way, told, found.varying)
    return replace(made, looks=found.looks)


def _together(found: Sequence[Found]) -> Found:
    return Found(
        records=[record for one in found for record in one.records],
        under_way=[run for one in found for run in one.under_way],
        problems=[problem for one in found for problem in one.problems],
        unfinished=[folder for one in found for folder in one.unfinished],
        environments={cell: told for one in found for cell, told in one.environments.items()},
        looks={folder: rows for one in found for folder, rows in one.looks.items()},
    )


def _collection(
    ordered: Sequence[Record],
    problems: Problems,
    unfinished: list[Path],
    under_way: list[UnderWay],
    environments: dict[str, dict[str, Any]],
    keys: tuple[str, ...] | None,
) -> Collection:
    """Return the frames of runs in their order; `keys` are the settings that vary, if known."""
    if keys is None:
        keys = varying([record.settings for record in ordered if record.settings])
    settings = [record.settings for record in ordered]
    runs = run_frame([record.row for record in ordered], settings, keys)
    return Collection(
        frame=evaluation_frame(runs, [record.evaluations for record in ordered]),
        runs=runs,
        varying=keys,
        settings={record.row["folder"]: record.settings for record in ordered},
        problems=problems,
        unfinished=unfinished,
        baselines={r.row["folder"]: r.baselines for r in ordered if r.baselines},
        under_way=under_way,
        environments=environments,
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
            other = "" if same else ", with other numbers"
            problems.append(
                (record.folder, f"the same run as {first.folder}, which is used{other}")
            )
    return sorted(used.values(), key=lambda record: record.key)
