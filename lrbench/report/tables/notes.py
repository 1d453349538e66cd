"""The lines below a table: how to read it, and what a reader must not overlook."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from lrbench.metrics import METRICS
from lrbench.report.output.cells import MISSING, escape, span
from lrbench.report.runs.collection import Collection

SHOWN = 10  # failures named one by one; the rest is counted
NAMED = 100  # files and folders that could not be used: each matters, but not a thousand lines
# Keys that are no part of the fingerprint: they cannot be why two of them differ.
OUTSIDE = ("seed", "data_seed", "trials", "device", "threads", "force", "output_dir", "tuning_runs")


def settings_of(runs: pd.DataFrame, collection: Collection) -> dict[str, Any]:
    """Return the flattened configuration of the first of `runs` that has one."""
    found = (collection.settings[folder] for folder in runs["folder"])
    return next((settings for settings in found if settings), {})


def competitors(cell: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return those of `runs` of the same task and model as `cell`, whatever their fingerprint."""
    same: pd.Series[bool] = (runs[["task", "model"]] == cell[["task", "model"]].iloc[0]).all(axis=1)
    return runs[same]


def differences(runs: pd.DataFrame, collection: Collection) -> list[str]:
    """Return the configuration keys on which the fingerprints among `runs` differ."""
    cells = runs.groupby("fingerprint", sort=True)
    settings = [found for _, cell in cells if (found := settings_of(cell, collection))]
    keys = sorted({key for found in settings for key in found})
    return [
        key
        for key in keys
        if key not in OUTSIDE
        and not key.startswith("versions")
        and len({repr(found.get(key)) for found in settings}) > 1
    ]


def table_notes(runs: pd.DataFrame, frame: pd.DataFrame, collection: Collection) -> list[str]:
    """Return the notes below the table of one protocol."""
    return [
        *_legend(frame),
        *ended_early(runs),
        *competition(runs, collection),
        *unsuccessful(runs),
    ]


def reading_notes(collection: Collection) -> list[str]:
    """Return markdown lines on files that could not be used and runs without a result."""
    return [f"- {escape(text)}" for text in reading_texts(collection)]


def reading_texts(collection: Collection) -> list[str]:
    """Return the same as plain text: counted where there are several, the first hundred named."""
    problems, unfinished = collection.problems, collection.unfinished
    lines = [f"not used: {path}: {reason}" for path, reason in problems[:NAMED]]
    if len(problems) > 1:
        more = ", of which the first are" if len(problems) > NAMED else ""
        lines.insert(0, f"{len(problems):,} files or folders were not used{more}:")
    if unfinished:
        places = ", ".join(str(folder) for folder in unfinished[:NAMED])
        more = ", ..." if len(unfinished) > NAMED else ""
        count = f"{len(unfinished):,} runs have " if len(unfinished) > 1 else ""
        lines.append(
            f"{count}no result yet (running, or interrupted and resumable): {places}{more}"
        )
    return lines


def _legend(frame: pd.DataFrame) -> list[str]:
    fresh = frame[(frame["kind"] == "test") & frame["split"].isin(["train_length", "test"])]
    if fresh.empty:
        return []
    strings = span([int(n) for n in fresh["n"]]).text
    errors = set(fresh["metric"]) & {name for name, one in METRICS.items() if not one.counts}
    told = "NRMSE: root of squared error over squared target, at every position; lower is better"
    return [
        f"train, test: accuracy at the two lengths on {strings} fresh strings, final position, of"
        " the checkpoint each rule keeps; mean ± sample std (n) over n runs",
        "rules: best = best look at the test length (the paper's), id = lowest validation loss at"
        " the training length, band = highest accuracy over the band, last = end of training",
        "best look: the number the paper's rule prints; guessing: what it gives a guesser; chance:"
        " the best measured baseline; paper: as printed",
        *([told] if errors else []),
    ]


def ended_early(runs: pd.DataFrame) -> list[str]:
    """Say how many of `runs` ended at a perfect look, before their budget did."""
    tried = runs[runs["status"] != "failed"]
    early = int((tried["stopped"] == "perfect").sum())
    if not early:
        return []
    return [
        f"{early} of {len(tried)} runs ended early, at a perfect look: their last is that look's"
        " checkpoint; protocol.stop=never trains the whole budget"
    ]


def competition(runs: pd.DataFrame, collection: Collection) -> list[str]:
    """Say where several configurations compete, and on what they differ."""
    lines = []
    for (task, model), rivals in runs.groupby(["task", "model"], sort=True):
        fingerprints = sorted(set(rivals["fingerprint"]))
        if len(fingerprints) == 1:
            continue
        keys = differences(rivals, collection)
        why = (
            f"they differ in {', '.join(keys)}"
            if keys
            else "equal configurations, so another version of the task, model or protocol"
        )
        lines.append(
            f"{len(fingerprints)} configurations compete for {task} x {model}"
            f" ({', '.join(fingerprints)}): {why}; choose one with --fingerprint"
        )
    return lines


def statuses(runs: pd.DataFrame) -> str:
    """Return '2 finished, 1 failed'."""
    counts = Counter(runs["status"])
    known = [name for name in ("finished", "diverged", "failed") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in known)


def without_number(runs: pd.DataFrame) -> str:
    """Return what stands for a number: 'failed' and 'diverged' only where all runs did."""
    found = set(runs["status"])
    return str(found.pop()) if found in ({"failed"}, {"diverged"}) else MISSING


def unsuccessful(runs: pd.DataFrame) -> list[str]:
    """Name the runs that failed or diverged."""
    lines = [
        f"failed: {run.folder}: {' '.join(str(run.error).split())}"
        for run in runs[runs["status"] == "failed"].itertuples()
    ]
    lines += [
        f"diverged: {run.folder} at update {run.steps:,}"
        for run in runs[runs["status"] == "diverged"].itertuples()
    ]
    more = [f"and {len(lines) - SHOWN} more that failed or diverged"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more
