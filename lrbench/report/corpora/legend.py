"""The lines below a table of splits: how to read it, and what a reader must not overlook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from lrbench.report.corpora.columns import Grid
from lrbench.report.corpora.levels import meanings
from lrbench.report.corpora.rows import printed_numbers
from lrbench.report.paper.reference import Reference
from lrbench.report.paper.verdict import FEWEST, TOLERANCE
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.left_out import capped, competing, counted, unfinished_notes
from lrbench.report.tables.notes import unsuccessful
from lrbench.report.tables.places import View
from lrbench.tables import TableSpec

RULE_LEGEND = {
    "best": "the checkpoint with the best dev score, which is the paper's rule: no test split has a"
    " say",
    "last": "the end of training, which is not the paper's rule",
}

AT_CHANCE = (
    "; marked at chance where a mean of as many guessers on as many strings as ours reaches it in"
    " 5 % of cases or more"
)


def main_notes(
    collection: Collection, spec: TableSpec, grid: Grid, view: View, references: Path | None
) -> list[str]:
    """Return the notes below the main table of a grid."""
    shown = runs_of(grid)
    return [
        f"{view.rule}: {RULE_LEGEND[view.rule]}; accuracy on all strings of a split, mean ± sample"
        " std (n) over n runs",
        *paper_notes(printed_numbers(grid, references)),
        *baseline_notes(grid),
        verdict_legend(),
        *cut_short(shown),
        *capped((line for entry in grid.cells for line in competing(entry, collection)), "cells"),
        *capped(_short(grid, view), "cells"),
        *unfinished_notes(grid.cells),
        *unsuccessful(shown),
        *_elsewhere(grid, collection, spec.protocol),
    ]


def paper_notes(numbers: Sequence[Reference], marks: bool = True) -> list[str]:
    """Say where the paper's numbers are from, how one was made of several runs, what `marks`."""
    if not numbers:
        return []
    how = ", ".join(dict.fromkeys(number.aggregation for number in numbers))
    source = ", ".join(dict.fromkeys(number.source for number in numbers))
    spreads = any(number.spread for number in numbers)
    return [
        f"paper: as printed in {source} ({how}), percentages as shares"
        + ("; ± is the spread that it prints, a population std" if spreads else "")
        + (AT_CHANCE if marks else "")
    ]


def baseline_notes(grid: Grid) -> list[str]:
    """Say what the baselines are."""
    there = {name for level in grid.levels.values() for name in level.values}
    if not there:
        return []
    beaten = "; a model that is no better than root_digits need not have followed the nesting"
    return [
        "baseline: lookups fitted on the training split and scored on the same strings:"
        f" {meanings(there)}" + (beaten if "root_digits" in there else "")
    ]


def verdict_legend() -> str:
    """Say what the verdicts mean on a split."""
    return (
        f"verdicts (none for fewer than {FEWEST} runs): reproduced = the 95 % interval of our mean"
        f" is within {TOLERANCE} of the paper's number at its printed precision; above, below ="
        " all of it on that side; inconclusive = too wide to tell; at chance = explained by"
        " guessing as well as uniform or majority, not by better lookups; not comparable = another"
        " rule or other data than the paper's; not learned is not said of a training split that"
        " most of the paper's models have not learned either"
    )


def cut_short(shown: pd.DataFrame) -> list[str]:
    """Say how many runs ended while their dev score might still have become better."""
    ended = shown[shown["status"] == "finished"]
    cut = int((ended["stopped"] == "budget").sum())
    if not cut:
        return []
    return [
        f"{cut} of {len(ended)} runs ended at their budget, not because the dev score had stopped"
        " improving: they may be short of what the model can do"
    ]


def runs_of(grid: Grid) -> pd.DataFrame:
    """Return the runs of a grid, once each."""
    frames = [entry.runs for entry in grid.cells]
    if not frames:
        return pd.DataFrame({name: [] for name in ("status", "stopped", "folder")})
    shown = pd.concat(frames)
    return shown[~shown.index.duplicated()]


def _short(grid: Grid, view: View) -> Iterator[str]:
    """Say how many runs a cell lacks, and which of its splits have no number."""
    for entry in grid.cells:
        if entry.contested:
            continue
        name, ended = f"{entry.task} x {entry.label}", len(entry.runs) - entry.count("failed")
        if entry.wanted and ended < entry.wanted:
            yield f"{name}: {ended} of {entry.wanted} runs have ended"
        mine = [
            each
            for (label, _), each in grid.entries.items()
            if label == entry.label and each.rivals == entry.rivals
        ]
        without = [each.split for each in mine if not each.values(view.rule, "test")]
        if ended and without:
            yield f"{name}: not tested by {view.rule} on {', '.join(without)}"


def _elsewhere(grid: Grid, collection: Collection, protocol: str) -> list[str]:
    """Count the runs that belong to no cell, by task, model, protocol and training split."""
    runs = collection.runs
    competing_for = {name for entry in grid.cells for name in (*entry.rivals, *entry.left_out)}
    there = runs["fingerprint"].isin(competing_for) & (runs["protocol"] == protocol)
    names: dict[str, int] = {}
    for run in runs[~there].itertuples(index=False):
        name = f"{run.task} x {run.model}"
        if run.protocol != protocol:
            name += f" by {run.protocol}"
        source = collection.settings[str(run.folder)].get("protocol.train_split", "train")
        name += "" if source == "train" else f" trained on {source}"
        names[name] = names.get(name, 0) + 1
    return counted(names)
