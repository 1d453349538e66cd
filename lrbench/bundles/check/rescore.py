"""New scores of a bundle's checkpoints on unseen strings, beside the scores that it states.

Over a corpus the strings are those of the run's own splits: the same scores must come out again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.bundles.check.stated import (
    range_of,
    refuse_twice,
    refuse_twins,
    refuse_untrue,
    stated_scores,
    stated_sequence,
)
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.metrics import ACCURACY, METRICS
from lrbench.records import FURTHER, Evaluation, Result
from lrbench.runs.evaluate.evaluation import score_run
from lrbench.runs.train.display import ExaminationDisplay
from lrbench.runs.train.validate import check_fits, resolve_device
from lrbench.schema import config_from
from lrbench.statistics import correct_of
from lrbench.training.procedure import procedure_for

AT_FURTHER = 100  # strings, at most: these are long
LEVEL = 0.01  # the chance that any of a bundle's numbers is doubted though all are right
ROUNDING = 0.01  # of an error measured twice on the same series, by other hardware
FLIPPED = 0.005  # of the answers to the same strings, by rounding on other hardware


@dataclass(frozen=True)
class ScoreComparison:
    """A published accuracy, and the same checkpoint's on fresh strings; or an error, on the same.

    An error has no `interval`: a fixed set of series is read again, so it must come out again. So
    must the accuracy on a `split` of a corpus, where `length` is that of its longest string.
    """

    run: str
    length: int
    recorded: float
    recorded_n: int
    now: float
    now_n: int
    interval: tuple[float, float] | None
    metric: str = ACCURACY.name
    split: str = ""

    @property
    def place(self) -> str:
        """Where it was measured: 'at 500', 'on near_iid'."""
        return f"on {self.split}" if self.split else f"at {self.length}"

    @property
    def p(self) -> float:
        """How likely so large a difference is for one true accuracy (Fisher's exact test)."""
        if self.split:
            allowed = max(1, FLIPPED * self.recorded_n) + 0.5
            near = abs(self.recorded - self.now) * self.recorded_n <= allowed
            return float(near and self.now_n == self.recorded_n)
        if not METRICS[self.metric].counts:
            same = self.now_n == self.recorded_n
            return float(not same or math.isclose(self.now, self.recorded, rel_tol=ROUNDING))
        from scipy.stats import fisher_exact

        right = correct_of(self.recorded, self.recorded_n), correct_of(self.now, self.now_n)
        wrong = self.recorded_n - right[0], self.now_n - right[1]
        return float(fisher_exact([right, wrong]).pvalue)


def differing(comparisons: list[ScoreComparison]) -> list[ScoreComparison]:
    """Return those beyond sampling error, at `LEVEL` for all together (Bonferroni)."""
    return [one for one in comparisons if one.p < LEVEL / len(comparisons)]


def rescore(
    folder: Path,
    run: str,
    result: Result,
    rule: str,
    strings: int,
    seed: int,
    device: str,
    entry: bool = False,
    display: ExaminationDisplay | None = None,
) -> list[ScoreComparison]:
    """Score the checkpoint of one run at the lengths it tells accuracies of.

    A further length gets at most `AT_FURTHER` strings, because it takes long. The lengths between
    the ends of a range share the strings of one. An entry of a suite gets at each length no more
    strings than it tells of. Nothing in the checkpoint is executed.
    Raises UserError where it cannot be scored.
    """
    config = _config(result)
    recorded = stated_scores(result, config, rule, entry, seed)
    refuse_untrue(result, config, rule)
    if not recorded:
        return []
    check_fits(config, resolve_device(device))
    between = sorted(range_of(result, rule) & recorded.keys())[1:-1]
    by_count: dict[int, list[int]] = {}
    for length, row in sorted(recorded.items()):
        count = strings
        if entry:
            count = min(strings, row["n"])
        elif row["split"] == FURTHER:
            count = min(strings, AT_FURTHER)
        elif length in between:  # together they take as long as one
            count = -(-strings // len(between))
        by_count.setdefault(count, []).append(length)
    rows = []
    for count, lengths in by_count.items():
        text = ",".join(map(str, lengths))
        purpose = f"verify {seed}"
        rows += score_run(folder, text, rule, count, device, purpose, display=display)[0]
    rows.sort(key=lambda row: row["length"])
    whole = _right_throughout(run, rows, stated_sequence(result, config, rule))
    return whole + [
        ScoreComparison(
            run=run,
            length=row["length"],
            recorded=recorded[row["length"]]["value"],
            recorded_n=recorded[row["length"]]["n"],
            now=row["value"],
            now_n=row["n"],
            interval=_pair(row["interval"]),
            metric=row["metric"],
        )
        for row in rows
    ]


def rescore_splits(
    folder: Path,
    run: str,
    result: Result,
    rule: str,
    splits: Sequence[str],
    device: str,
    display: ExaminationDisplay | None = None,
) -> list[ScoreComparison]:
    """Score the checkpoint of one run on those of `splits` that it tells accuracies of.

    Nothing in the checkpoint is executed. Raises UserError where it cannot be scored.
    """
    refuse_twice(_on_splits(result, rule))
    refuse_twins(result, rule)
    recorded = {
        split: row for split, row in recorded_on_splits(result, rule).items() if split in splits
    }
    if not recorded:
        return []
    check_fits(_config(result), resolve_device(device))
    named = ",".join(recorded)
    rows, _ = score_run(folder, "", rule, None, device, splits=named, display=display)
    return [
        ScoreComparison(
            run=run,
            length=row["length"],
            recorded=recorded[row["split"]]["value"],
            recorded_n=recorded[row["split"]]["n"],
            now=row["value"],
            now_n=row["n"],
            interval=None,
            split=row["split"],
        )
        for row in rows
    ]


def recorded_on_splits(result: Result, rule: str) -> dict[str, Evaluation]:
    """Return the rows of a run's accuracies on test splits, by split."""
    return {row["split"]: row for row in _on_splits(result, rule)}


def _on_splits(result: Result, rule: str) -> list[Evaluation]:
    return [
        row
        for row in result["evaluations"]
        if (row["which"], row["kind"], row["metric"]) == (rule, "test", ACCURACY.name)
        and row["value"] is not None
    ]


def levels_differ(result: Result) -> bool:
    """Tell whether chance, measured here, is not what a result tells, guessing included.

    Raises UserError where it cannot be measured, such as for want of a corpus.
    """
    config, device = _config(result), resolve_device("cpu")
    check_fits(config, device)
    procedure = procedure_for(config)
    trial = procedure.trial(result["seed"], device)
    levels, guessing = procedure.levels(trial, lambda read=0, planned=0: None)
    baselines, guesses = result.get("baselines") or [], result.get("guessing") or []  # if left out
    return not (_alike(levels, baselines) and _alike(guessing, guesses))


def _alike(measured: Sequence[Mapping[str, Any]], stated: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows are the same but for rounding, in any order."""
    here, there = ({_place(row): row["value"] for row in rows} for rows in (measured, stated))
    same = here.keys() == there.keys() and len(stated) == len(there)
    return same and all(math.isclose(here[at], there[at], rel_tol=1e-6) for at in here)


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Everything a row says but its value."""
    return tuple(sorted(f"{key}={value}" for key, value in row.items() if key != "value"))


def _right_throughout(
    run: str, rows: Sequence[Evaluation], recorded: Evaluation | None
) -> list[ScoreComparison]:
    """Compare the share of strings that are right throughout, where a test's number is that."""
    if recorded is None:
        return []
    row = next(row for row in rows if row["length"] == max(one["length"] for one in rows))
    now = row.get("sequence", row.get("exact"))
    if now is None:
        raise UserError("its number is of whole strings, and its task does not count them")
    told = recorded["value"], recorded["n"], float(now), row["n"]
    return [ScoreComparison(run, row["length"], *told, interval=None)]


def _pair(interval: list[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])


def _config(result: Result) -> Config:
    try:
        return config_from(result["config"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"its configuration is incomplete: {error}") from error
