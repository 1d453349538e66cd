"""What the verdicts of a table mean, what it does not show, and what its cells are short of."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from lrbench.report.paper.verdict import FEWEST, LEARNED, RELATIVE_TOLERANCE, TOLERANCE
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.looks import UnderWay
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.notes import SHOWN, differences, ended_early, unsuccessful
from lrbench.report.tables.places import View


def selection_notes(view: View, collection: Collection, protocol: str) -> list[str]:
    """Return the notes on the cells of one table and on the runs that are no part of it."""
    entries, rule = view.entries, view.rule
    shown = pd.concat([entry.runs for entry in entries]) if entries else collection.runs[:0]
    shown = shown[~shown.index.duplicated()]
    return [
        *capped((line for entry in entries for line in competing(entry, collection)), "cells"),
        *capped((line for entry in entries for line in _short(entry, rule)), "cells"),
        *unfinished_notes(entries),
        *ended_early(shown),
        *unsuccessful(shown),
        *_elsewhere(entries, collection, protocol),
    ]


def competing(entry: Entry, collection: Collection) -> list[str]:
    """Say which configurations compete, or which was chosen and what it left out."""
    if not entry.contested:
        if not entry.left_out:
            return []
        shown = entry.rivals[0] if entry.rivals else "none"
        return [f"{_name(entry)}: {shown} is shown, not {', '.join(entry.left_out)}"]
    runs = collection.runs[collection.runs["fingerprint"].isin(entry.rivals)]
    keys = differences(runs[runs["task"] == entry.task], collection)
    why = f"they differ in {', '.join(keys)}" if keys else "equal configurations, other versions"
    return [
        f"{len(entry.rivals)} configurations compete for {_name(entry)}"
        f" ({', '.join(entry.rivals)}): {why}; none is shown: choose one with --fingerprint"
    ]


def unfinished_notes(entries: Iterable[Entry]) -> list[str]:
    """Return a note on each run that has not ended: how far it is, and what continues it."""
    return capped((_unfinished(entry, run) for entry in entries for run in entry.under_way), "runs")


def _unfinished(entry: Entry, run: UnderWay) -> str:
    budget = f" of {run.budget:,}" if run.budget else ""
    look = f", last look {run.told_look}" if run.told_look else ""
    several = len({other.fingerprint for other in entry.under_way}) > 1
    rivals = f" ({run.fingerprint})" if several else ""
    asked = [word for word in entry.overrides if word.partition("=")[0] not in ("trials", "seed")]
    words = shlex.join([*asked, f"seed={run.seed}"])
    return (
        f"{_name(entry)} seed {run.seed}{rivals}: unfinished, {run.steps:,}{budget} updates{look};"
        f" goes on with: lrbench train {words}"
    )


def _short(entry: Entry, rule: str) -> list[str]:
    """Say how many runs a cell lacks, and which of its runs have no number."""
    if entry.contested:
        return []
    ended = len(entry.runs) - entry.count("failed")
    lines = []
    if entry.wanted and ended < entry.wanted:
        lines.append(f"{_name(entry)}: {ended} of {entry.wanted} runs have ended")
    without = ended - len(entry.values(rule, "test"))
    if without:
        lines.append(f"{_name(entry)}: {without} of {ended} runs have no number by {rule}")
    others = [length for length in entry.lengths() if length != entry.length]
    if others:
        lengths = ", ".join(f"{length:,}" for length in others)
        lines.append(f"{_name(entry)}: tested at {lengths} as well, which is in the csv format")
    return lines


def _elsewhere(entries: Sequence[Entry], collection: Collection, protocol: str) -> list[str]:
    """Count the runs that belong to no cell of the table, by task, model and protocol."""
    covered = {(entry.task, entry.model) for entry in entries}
    names: dict[str, int] = {}
    for run in collection.runs[["task", "model", "protocol"]].itertuples(index=False):
        if run.protocol != protocol:
            name = f"{run.task} x {run.model} by {run.protocol}"
        elif (run.task, run.model) in covered:
            continue
        else:
            name = f"{run.task} x {run.model}"
        names[name] = names.get(name, 0) + 1
    return counted(names)


def counted(names: Mapping[str, int]) -> list[str]:
    """Return a note on so many runs of each name that belong to no cell of a table."""
    found = [f"{name} ({count})" for name, count in sorted(names.items())]
    more = f", and {len(found) - SHOWN} cells more" if len(found) > SHOWN else ""
    told = ", ".join(found[:SHOWN])
    return [f"{sum(names.values())} runs of no cell of this table: {told}{more}"] if names else []


def capped(lines: Iterable[str], noun: str) -> list[str]:
    """Return the lines once each, the first ten and how many more there are."""
    found = list(dict.fromkeys(lines))
    more = [f"and {len(found) - SHOWN} more such {noun}"] if len(found) > SHOWN else []
    return found[:SHOWN] + more


def _name(entry: Entry) -> str:
    return f"{entry.task} x {entry.label}"


BETWEEN = "above, below = all of it on that side; inconclusive = too wide to tell"
OTHER = "not comparable = another rule, length or protocol than the paper's"
OF_ACCURACIES = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval within {TOLERANCE}"
    f" of the paper's number at its printed precision; {BETWEEN}; not learned = the median run has"
    f" less than {LEARNED} at the training length; at chance = no better than guessing under the"
    f" same rule, or far worse; {OTHER}"
)
WITHIN = f"within {RELATIVE_TOLERANCE} times the paper's number"
OF_ERRORS = (
    f"verdicts (none for fewer than {FEWEST} runs): reproduced = 95 % interval {WITHIN} of it, at"
    f" its printed precision; {BETWEEN}; not learned = all runs diverged; at chance = no better"
    f" than the best baseline; {OTHER}"
)
ERRORS = (
    "NRMSE: root of the summed squared error over the summed squared target, at every position of"
    " every test series; lower is better, so below the paper's number is better than it; look and"
    " fresh strings are the same test series; nothing is guessed or solved"
)
ERRORS_BESIDE = (
    f"; reproduced = {WITHIN} of it; at chance = no better than the best baseline; not learned ="
    " all runs diverged"
)


def how_to_read(view: View) -> Iterator[str]:
    """Yield the lines on verdicts that `view` needs."""
    counted = [entry.metric.counts for entry in view.entries]
    only_errors = bool(counted) and not any(counted)
    yield OF_ERRORS if only_errors else OF_ACCURACIES
    if any(_all_alike(entry, view.rule) for entry in view.entries):
        yield (
            "runs that are all alike give an interval without width: a further run may differ all"
            " the same; the solve rates have an interval that says how often"
        )
    yield from _fewer_updates(view)
    if not all(counted):
        yield ERRORS + ("" if only_errors else ERRORS_BESIDE)


def _fewer_updates(view: View) -> Iterator[str]:
    """Say where our runs had a smaller budget than the paper's: that alone may be a 'below'."""
    budgets = {
        (ours, entry.published.updates)
        for entry in view.entries
        if len(entry.runs) and entry.published
        if (ours := entry.settings.get("protocol.max_steps")) and ours < entry.published.updates
    }
    for ours, theirs in sorted(budgets):
        yield (
            f"our runs of {ours:,} updates stand against the paper's of {theirs:,}: 'below', 'not"
            " learned' and 'at chance' may be for want of training"
        )


def _all_alike(entry: Entry, rule: str) -> bool:
    values = entry.values(rule, "look")
    return len(values) >= FEWEST and len(set(values)) == 1
