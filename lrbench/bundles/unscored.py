"""What a bundle tells that is not scored again here: splits, and why; what was added later."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lrbench.bundles.findings import BAD, OPEN, Finding
from lrbench.bundles.rescore import told_on_splits
from lrbench.bundles.splits import SplitState
from lrbench.report.output.display import plural
from lrbench.report.runs.record import FOLDER

States = dict[str, SplitState]  # by split


def unscored_splits(
    results: dict[str, dict[str, Any]], rule: str, states: dict[str, States]
) -> Iterator[Finding]:
    """Yield which splits could not be scored again and why, each once for all runs."""
    left: dict[tuple[str, str, bool], dict[str, None]] = {}
    for run, found in states.items():
        result = results[run]
        for name in told_on_splits(result, rule):
            state = obstacle(result, found, name)
            if state.why:
                key = result["task"], state.why, state.fault
                left.setdefault(key, {})[name] = None
    for (task, why, fault), names in left.items():
        text = f"{', '.join(names)} not scored again: {why}"
        yield Finding(task, BAD if fault else OPEN, text)


def later_scores(files: Mapping[str, bytes], folder: str) -> Iterator[Finding]:
    """Yield that what `lrbench evaluate` told of runs below `folder` was not scored again."""
    runs: set[str] = set()
    lengths: set[int] = set()
    for name, data in files.items():
        run, _, rest = name.removeprefix(f"{folder}/").partition(f"/{FOLDER}/")
        if rest:
            runs.add(run)
            lengths |= _lengths(data)
    if runs:
        reach = f"{min(lengths):,} to {max(lengths):,}" if lengths else "no length that can be read"
        text = (
            f"told by `lrbench evaluate` of {plural(len(runs), 'run')}, {reach}: not scored again"
        )
        yield Finding("later scores", OPEN, text)


def _lengths(data: bytes) -> set[int]:
    """Return the lengths in a file of evaluations; a stranger's file may hold anything."""
    try:
        rows = json.loads(data)["evaluations"]
        return {int(row["length"]) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()


def obstacle(result: dict[str, Any], found: States, split: str) -> SplitState:
    """Return what keeps a split from being scored: its own state, or no split to train on."""
    own = found.get(split, SplitState("its configuration does not name that split", fault=True))
    train = found.get(result["config"]["protocol"].get("train_split", "train"), SplitState())
    if re.search(r"[\s,]", split):
        return SplitState("a list of splits cannot name it")
    if not own.why and train.absent:
        return SplitState(f"its training split is missing: {train.why}")
    return own
