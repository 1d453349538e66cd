"""The examination at the end of a run: every kept checkpoint on fresh strings at many lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lrbench.statistics import guessing_best_of
from lrbench.tasks.base import Task
from lrbench.tasks.baselines import best_baseline, measure_baselines
from lrbench.training.epochs import EpochTrial
from lrbench.training.horizon import horizon, rule_or_rounding
from lrbench.training.scoring import Score, score
from lrbench.training.split_scores import split_baselines, split_tests
from lrbench.training.trial import Trial

Check = Callable[[], None]


def test_plan(task: Task, protocol: Any) -> list[tuple[int, str, int]]:
    """Return (length, split, strings) of the final tests, each length once, shortest first.

    `test_size` strings at the training and the test lengths; a tenth at the further lengths, each
    the nearest valid one below. A corpus is tested at the length it is trained at: that is a test.
    """
    fewer = max(1, protocol.test_size // 10)
    plan: dict[int, tuple[str, int]] = {}
    for length in protocol.further_lengths:
        plan[task.nearest_length(length)] = ("further", fewer)
    for length in protocol.test_lengths:
        plan[length] = ("test", protocol.test_size)
    if not (task.corpus and protocol.train_length in protocol.test_lengths):
        plan[protocol.train_length] = ("train_length", protocol.test_size)
    return [(length, *plan[length]) for length in sorted(plan)]


def final_tests(
    trial: Trial, load: Callable[[str], dict[str, Any]], check: Check
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Score the checkpoint that each rule kept; return (evaluation rows, horizon of each rule).

    `load(rule)` returns the model weights that `rule` kept. Rules that kept the same update share
    one examination. A run over a corpus is examined on its test splits, and has no horizon.
    """
    if isinstance(trial, EpochTrial):
        return split_tests(trial, load, check), {}
    rows: list[dict[str, Any]] = []
    horizons: dict[str, Any] = {}
    examined: dict[int, tuple[list[dict[str, Any]], dict[str, Any] | None]] = {}
    for rule, step in trial.rules.steps().items():
        if step not in examined:
            trial.model.load_state_dict(load(rule))
            examined[step] = _examine(trial, check)
        tests, found = examined[step]
        horizons |= {} if found is None else {rule: found}
        rows += _looks_of(trial, trial.rules.kept[rule], rule)
        rows += [{**row, "which": rule} for row in tests]
    return rows, horizons


def _examine(trial: Trial, check: Check) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the rows of the tests, and the horizon; None for a corpus: it has no long strings."""
    rows: list[dict[str, Any]] = []
    scores: list[Score] = []
    for length, split, n in test_plan(trial.task, trial.config.protocol):
        stream = trial.stream("test", length)
        result = score(trial.model, trial.task, stream, length, n, trial.device, check=check)
        scores.append(result)
        row = _row(length, split, trial.task.metric.name, result.value, result.n, "test")
        rows.append({**row, "seconds": round(result.seconds, 3)})
    if trial.task.corpus or not trial.task.metric.counts:
        return rows, None
    found = horizon(scores)
    again = None
    if found["upper"] is not None:
        n = next(s.n for s in scores if s.length == found["upper"])
        again = rule_or_rounding(trial, found["upper"], n, check)
    return rows, {**found, "dtype": trial.dtype, "mode": trial.model.mode, "float64": again}


def _looks_of(trial: Trial, look: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    """Return the look a rule believed as evaluation rows; a band goes by its longest length."""
    protocol = trial.config.protocol
    parts = [
        ("test", "test", look["test_length"]),
        ("validation", "train_length", protocol.train_length),
        ("band", "band", protocol.band[1]),
    ]
    rows = []
    for key, split, length in parts:
        for metric in (trial.task.metric.name, "loss"):
            if f"{key}_{metric}" in look:
                value, n = look[f"{key}_{metric}"], look[f"{key}_n"]
                rows.append({**_row(length, split, metric, value, n, "look"), "which": rule})
    return rows


def _row(length: int, split: str, metric: str, value: float, n: int, kind: str) -> dict[str, Any]:
    return {
        "length": length,
        "split": split,
        "metric": metric,
        "value": value,
        "n": n,
        "kind": kind,
    }


def baseline_strings(length: int) -> int:
    """Return how many strings chance is measured on: enough for two digits, fewer if very long."""
    return 10_000 if length <= 1000 else 1000


def chance_levels(trial: Trial, check: Check) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure the baselines at every tested length, and what guessing under `best` would give.

    Nobody guesses numbers: a task that asks for them has baselines only. So has a corpus, where
    nothing is chosen by looking at a test split.
    """
    if isinstance(trial, EpochTrial):
        return split_baselines(trial, check), []
    protocol = trial.config.protocol
    baselines: list[dict[str, Any]] = []
    guessing: list[dict[str, Any]] = []
    for length, split, _ in test_plan(trial.task, protocol):
        check()
        stream, n = trial.stream("baseline", length), baseline_strings(length)
        measured = measure_baselines(trial.task, stream, length, n, trial.device)
        baselines += measured
        if split == "test" and trial.task.metric.counts:
            looks = -(-protocol.max_steps // protocol.look_every)
            chance = best_baseline(measured)["value"]
            there = trial.task.available(trial.stream("look", length))
            strings = min(protocol.look_size, there or protocol.look_size)
            value = guessing_best_of(chance, strings, looks)
            guessing.append(
                {
                    "rule": "best",
                    "length": length,
                    "value": value,
                    "looks": looks,
                    "strings": strings,
                }
            )
    return baselines, guessing
