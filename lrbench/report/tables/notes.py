"""The lines below a table: how to read it, and what a reader must not overlook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from lrbench.metrics import METRICS
from lrbench.protocols.base import Protocol
from lrbench.records import BY_LENGTH
from lrbench.registry import FOREIGN, PROTOCOLS
from lrbench.report.grids.filled_cell import UNLIKE, FilledCell
from lrbench.report.grids.grid import Grid
from lrbench.report.grids.selection import DAGGER, compared_settings
from lrbench.report.output.cells import MISSING, escape, span
from lrbench.report.output.display import plural
from lrbench.report.runs.collection import Collection, cell_of, groups
from lrbench.report.runs.columns import Columns, Environment, Settings, UnderWay
from lrbench.report.tables.going_on import going_on

SHOWN = 10  # failures named one by one; the rest is counted
DAGGER_NOTE = (
    f"{DAGGER} foreign: a torch module of a library, or of somebody's own, trained and scored on"
    " whole strings; nothing is known of its kernels beyond the lengths that were tested"
)
NAMED = 100  # files and folders that could not be used: each matters, but not a thousand lines


def differences(runs: pd.DataFrame | Columns, collection: Collection) -> list[str]:
    """Return the configuration keys on which the fingerprints among `runs` differ."""
    first: dict[str, Settings] = {}
    for fingerprint, folder in zip(runs["fingerprint"], runs["folder"], strict=True):
        if fingerprint not in first and (told := collection.settings[folder]):
            first[fingerprint] = compared_settings(told)
    settings = list(first.values())
    keys = sorted({key for found in settings for key in found})
    return [key for key in keys if len({repr(found.get(key)) for found in settings}) > 1]


def foreign_notes(runs: pd.DataFrame) -> list[str]:
    """Say what the dagger means, where a row has one."""
    return [DAGGER_NOTE] if (runs["model"] == FOREIGN).any() else []


def table_notes(
    runs: pd.DataFrame, frame: pd.DataFrame, collection: Collection, protocol: Protocol
) -> list[str]:
    """Return the notes below the table of one protocol."""
    return [
        *_legend(frame, protocol),
        *ended_early(runs),
        *competition(runs, collection),
        *unsuccessful(runs),
        *foreign_notes(runs),
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
        folders = ", ".join(str(folder) for folder in unfinished[:NAMED])
        more = ", ..." if len(unfinished) > NAMED else ""
        count = f"{len(unfinished):,} runs have " if len(unfinished) > 1 else ""
        lines.append(
            f"{count}no result yet (running, or interrupted and resumable): {folders}{more}"
        )
    return lines


def _legend(frame: pd.DataFrame, protocol: Protocol) -> list[str]:
    fresh = frame[(frame["kind"] == "test") & frame["split"].isin(["train_length", "test"])]
    if fresh.empty:
        return []
    strings = span([int(n) for n in fresh["n"]]).text
    errors = set(fresh["metric"]) & {name for name, one in METRICS.items() if not one.counts}
    usual = protocol.usual_rule
    rules = [f"{rule} = {legend}" for rule, legend in protocol.rules.items()]
    if protocol.paper:
        rules[0] += " (the paper's)"
        look = (
            f"{usual} look: the number the paper's rule prints; guessing: what it gives a guesser;"
            " chance: the best baseline; paper: as printed"
        )
    else:
        look = (
            f"{usual} look: at the test length, when rule {usual} kept its checkpoint; chance: the"
            " best baseline"
        )
    errors_legend = (
        "NRMSE: root of squared error over squared target, at every position; lower is better"
    )
    return [
        f"train, test: {_scored(frame, protocol, strings)}, of the checkpoint each rule keeps;"
        " mean ± sample std (n) over n runs",
        f"rules: {', '.join(rules)}",
        look,
        *([errors_legend] if errors else []),
    ]


def _scored(frame: pd.DataFrame, protocol: Protocol, strings: str) -> str:
    """What the numbers of a table are shares of, by the protocol's usual settings."""
    known = PROTOCOLS.get(protocol.name).config() if protocol.name in PROTOCOLS else None
    score, on = getattr(known, "score", None), f"on {strings} fresh strings"
    if score == "sequence":
        return f"share of strings right at every position {on} (train: at the final position)"
    lengths = frame[(frame["kind"] == "test") & (frame["split"] == BY_LENGTH)]["length"]
    if lengths.nunique() > 1:
        how = "mean over" if score == "mean" else "all strings of"
        span = f"{how} {lengths.nunique()} lengths, {lengths.min():,} to {lengths.max():,}"
        return f"accuracy {on}, final position (test: {span})"
    return f"accuracy at the two lengths {on}, final position"


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
    for rivals in groups(runs[["task", "model", "fingerprint", "folder"]], ["task", "model"]):
        task, model = rivals["task"][0], rivals["model"][0]
        fingerprints = sorted(set(rivals["fingerprint"]))
        if len(fingerprints) == 1:
            continue
        keys = differences(rivals, collection)
        why = (
            f"they differ in {', '.join(keys)}"
            if keys
            else "equal configurations, so another version of the task, model, protocol or plug-in"
        )
        lines.append(
            f"{len(fingerprints)} configurations compete for {task} x {model}"
            f" ({', '.join(fingerprints)}): {why}; choose one with --fingerprint"
        )
    return lines


def statuses(runs: pd.DataFrame | Columns) -> str:
    """Return '2 finished, 1 failed'."""
    counts = Counter(runs["status"])
    known = [name for name in ("finished", "diverged", "failed") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in known)


def without_number(runs: pd.DataFrame | Columns) -> str:
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


def selection_notes(grid: Grid, collection: Collection, protocol: str) -> list[str]:
    """Return the notes on the cells of one table and on the runs that are no part of it."""
    cells = grid.cells
    shown = pd.concat([filled.runs for filled in cells]) if cells else collection.runs[:0]
    shown = shown[~shown.index.duplicated()]
    return [
        *other_settings(cells),
        *capped((line for filled in cells for line in competing(filled, collection)), "cells"),
        *capped((line for filled in cells for line in _short(filled, grid)), "cells"),
        *unfinished_notes(cells, collection),
        *ended_early(shown),
        *unsuccessful(shown),
        *foreign_notes(shown),
        *_elsewhere(grid, collection, protocol),
    ]


def other_settings(cells: Iterable[FilledCell]) -> list[str]:
    """Say which cells show runs of other settings than the table's, and which they are.

    Also where it is not known what the table's are.
    """
    cells = list(cells)
    found = [filled for filled in cells if filled.unlike is not None]
    told = [f"{_name(one)}: {', '.join(one.unlike)}" for one in found if one.unlike]
    named = [_name(one) for one in found if not one.unlike]
    lines = [
        f"{UNLIKE} runs of other settings than the table's, which fill no cell of it: a"
        " sweep of the table trains these cells anew"
    ]
    lines += capped((f"{UNLIKE} {line}" for line in told), "cells")
    lines += [f"{UNLIKE} {', '.join(dict.fromkeys(named))}"] if named else []
    not_known = [
        f"{_name(one)}: not known whether its runs have the table's settings: {one.unknown}"
        for one in cells
        if one.unknown and len(one.runs)
    ]
    return [*(lines if found else []), *capped(not_known, "cells")]


def competing(filled: FilledCell, collection: Collection) -> list[str]:
    """Say which configurations compete, or which was chosen and what it left out."""
    if not filled.contested:
        if not filled.not_shown:
            return []
        shown = filled.rivals[0] if filled.rivals else "none"
        return [f"{_name(filled)}: {shown} is shown, not {', '.join(filled.not_shown)}"]
    runs = collection.runs[collection.runs["fingerprint"].isin(filled.rivals)]
    keys = differences(runs[runs["task"] == filled.task], collection)
    why = f"they differ in {', '.join(keys)}" if keys else "equal configurations, other versions"
    return [
        f"{len(filled.rivals)} configurations compete for {_name(filled)}"
        f" ({', '.join(filled.rivals)}): {why}; none is shown: choose one with --fingerprint"
    ]


def unfinished_notes(filled_cells: Iterable[FilledCell], collection: Collection) -> list[str]:
    """Return a note on each run that has not ended: how far it is, and what continues it."""
    return capped(
        (
            _unfinished(filled, run, collection.environments.get(cell_of(run.folder), {}))
            for filled in filled_cells
            for run in filled.under_way
        ),
        "runs",
    )


def _unfinished(filled: FilledCell, run: UnderWay, environment: Environment) -> str:
    budget = f" of {run.budget:,}" if run.budget else ""
    look = f", last look {run.last_look}" if run.last_look else ""
    several = len({other.fingerprint for other in filled.under_way}) > 1
    rivals = f" ({run.fingerprint})" if several else ""
    return (
        f"{_name(filled)} seed {run.seed}{rivals}: unfinished, {run.steps:,}{budget} updates{look};"
        f" {going_on(run, filled.overrides, environment)}"
    )


def _short(filled: FilledCell, grid: Grid) -> list[str]:
    """Say how many runs a cell lacks, and which of its runs have no number."""
    if filled.contested:
        return []
    ended = len(filled.runs) - filled.count("failed")
    lines = list(grid.without_number(filled, ended))
    if told := filled.lacking(ended):
        lines.insert(0, told)
    return [f"{_name(filled)}: {line}" for line in lines]


def _elsewhere(grid: Grid, collection: Collection, protocol: str) -> list[str]:
    """Count the runs that belong to no cell of the table, by what they are."""
    names: Counter[str] = Counter()
    for run in collection.runs.itertuples(index=False):
        settings = collection.settings[str(run.folder)]
        names.update(filter(None, [grid.outside(run, settings, protocol)]))
    found = [f"{name} ({count})" for name, count in sorted(names.items())]
    more = f", and {len(found) - SHOWN} cells more" if len(found) > SHOWN else ""
    shown = ", ".join(found[:SHOWN])
    return (
        [f"{plural(names.total(), 'run')} of no cell of this table: {shown}{more}"] if names else []
    )


def capped(lines: Iterable[str], noun: str) -> list[str]:
    """Return the lines once each, the first ten and how many more there are."""
    found = list(dict.fromkeys(lines))
    more = [f"and {len(found) - SHOWN} more such {noun}"] if len(found) > SHOWN else []
    return found[:SHOWN] + more


def _name(filled: FilledCell) -> str:
    return f"{filled.task} x {filled.label}"
