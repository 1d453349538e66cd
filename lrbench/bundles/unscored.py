"""Which splits of a bundle's runs cannot be scored here, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lrbench.bundles.findings import BAD, OPEN, Finding
from lrbench.bundles.rescore import told_on_splits
from lrbench.bundles.splits import SplitState

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


def obstacle(result: dict[str, Any], found: States, split: str) -> SplitState:
    """Return what keeps a split from being scored: its own state, or no split to train on."""
    own = found.get(split, SplitState("its configuration does not name that split", fault=True))
    train = found.get(result["config"]["protocol"].get("train_split", "train"), SplitState())
    if re.search(r"[\s,]", split):
        return SplitState("a list of splits cannot name it")
    if not own.why and train.absent:
        return SplitState(f"its training split is missing: {train.why}")
    return own
