"""The scores that a run tells, and which of them its checkpoint is asked for again.

A stranger's file may tell a score twice, or put it where nobody looks: whatever a table could show
is either compared, or refused, or named as not compared.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lrbench.bundles import layout
from lrbench.bundles.check.findings import OPEN, BundleFinding, finding
from lrbench.bundles.data import over_corpus
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.metrics import METRICS
from lrbench.records import BY_LENGTH, FURTHER, POSITIONS, TREES, Evaluation, Result
from lrbench.report.output.display import plural
from lrbench.report.runs.record import FOLDER
from lrbench.statistics import mean
from lrbench.training.procedure import Procedure, procedure_for

MOST = 10**8  # strings that a stranger's file may say it was scored on
LONGEST = 100_000  # a length that a stranger's file may make us read
BETWEEN = 6  # lengths of a range that are drawn between its ends
SINGLE = ("train_length", "test")  # splits of scores at one length that are always compared
CLOSE = 1e-6  # of a number that follows from others

NONE = "where its protocol tests none"

Scores = dict[int, Evaluation]  # by length


def stated_scores(
    result: Result, config: Config, rule: str, entry: bool = False, seed: int = 0
) -> Scores:
    """Return the scores at single lengths that a checkpoint is asked for again.

    Of a test over a range those of its shortest and longest length, and of BETWEEN between them
    that `seed` draws. entry: it is a suite's, which has no ranges. Raises UserError where a length
    has two scores, and where the number of a range does not follow from its lengths.
    """
    tests = [row for row in _tests(result, rule) if _is_read(row)]
    if over_range := [row for row in tests if row["split"] == BY_LENGTH]:
        if entry or not hasattr(config.protocol, "train_lengths"):
            raise UserError(f"it has scores over a range, which {result['protocol']} does not test")
        every = _once(over_range)
        _refuse_number(tests, every, config)
        lengths = sorted(every)
        between = lengths[1:-1]
        drawn = random.Random(seed).sample(between, min(BETWEEN, len(between)))
        return {length: every[length] for length in sorted({lengths[0], *drawn, lengths[-1]})}
    return _once(row for row in tests if row["metric"] in METRICS)


def stated_sequence(result: Result, config: Config, rule: str) -> Evaluation | None:
    """Return the number of a test whose number is the share of strings right throughout."""
    if getattr(config.protocol, "score", None) != "sequence":
        return None
    tests = [row for row in _tests(result, rule) if row["split"] == "test"]
    return next((row for row in tests if row["metric"] in METRICS), None)


def refuse_untrue(result: Result, config: Config, rule: str) -> None:
    """Raise UserError where tests of a checkpoint are not those that its protocol makes.

    Each has the length and as many strings as the configuration says: one string is right by luck.
    Every test of the protocol must be there: without the bad ones a model would look better.
    Rules that kept one update were scored once, so they tell the same. `lrbench evaluate` writes
    what it adds, of any length, into files of its own.
    """
    procedure = procedure_for(config)
    plan = procedure.tested() if _says_its_tests(type(procedure)) else None
    for row in _tests(result, rule):
        place, split, n = row["length"], row["split"], row["n"]
        if plan is None or not _is_read(row) or row["metric"] == "scaled":
            continue
        if split == BY_LENGTH and all(split != known for _, known, _ in plan):
            continue  # a drawn length each: what is told of them together is in the plan
        if (place, split, n) in plan:
            continue
        known = [strings for length, of, strings in plan if (length, of) == (place, split)]
        wanted = f"and its protocol tests {known[0]:,} there" if known else NONE
        raise UserError(f"it tells {plural(n, 'string')} at {place:,} ({split}), {wanted}")
    rows = [row for row in result["evaluations"] if (row["which"], row["kind"]) == (rule, "test")]
    there = {(row["length"], row["split"]) for row in rows}
    for place, split, n in plan or ():
        if (place, split) not in there:
            tests = f"where its protocol tests {plural(n, 'string')}"
            raise UserError(f"it tells nothing at {place:,} ({split}), {tests}")
    refuse_twins(result, rule)


def refuse_twins(result: Result, rule: str) -> None:
    """Raise UserError where a rule that kept the same update tells another test."""
    steps = result.get("checkpoints") or {}
    mine = _told(result, rule)
    for other, step in sorted(steps.items()):
        if step == steps.get(rule) and _told(result, other) != mine:
            raise UserError(
                f"its rules {rule} and {other} kept one update, {step:,}, and tell other tests"
            )


def _told(result: Result, rule: str) -> set[tuple[object, ...]]:
    return {
        tuple(repr(row.get(key)) for key in ("length", "split", "metric", "value", "n"))
        for row in result["evaluations"]
        if (row["which"], row["kind"]) == (rule, "test")
    }


def _says_its_tests(cls: type[Procedure]) -> bool:
    """Whether `tested` is of the class that examines, and not of one that it only builds on."""
    examines, says = (
        next(one for one in cls.__mro__ if name in vars(one)) for name in ("examine", "tested")
    )
    return examines is says


def range_of(result: Result, rule: str) -> set[int]:
    """Return the lengths of the range that a checkpoint tells scores of, if it does."""
    return {row["length"] for row in _tests(result, rule) if row["split"] == BY_LENGTH}


def not_compared(results: Iterable[Result], rule: str) -> list[str]:
    """Return what results tell beside the tests of a rule: nobody can read it off the weights.

    Of other checkpoints there are no weights, and looks and times were those of the training.
    """
    found = {"times": None}
    for result in results:
        kept = result.get("checkpoints") or {}
        twins = {name for name, step in kept.items() if step == kept.get(rule)} | {rule}
        rows = result.get("evaluations") or []
        told = {
            "looks": any(row.get("kind") == "look" for row in rows),
            "scores of other rules": any(
                row.get("kind") == "test" and row.get("which") not in twins for row in rows
            ),
            "scores at every position": any(row["split"] == POSITIONS for row in rows),
            "how trees follow the brackets": any(row.get("kind") == TREES for row in rows),
            "horizons": bool(result.get("horizon")),
        }
        found |= dict.fromkeys(name for name, there in told.items() if there)
    return [*sorted(found.keys() - {"times"}), "times"]


def not_read(result: Result, rule: str) -> list[str]:
    """Return where the scores lie that nobody reads again: 'at 200,003', 'at 9 (odd)'."""
    rows = [row for row in _tests(result, rule) if not _is_read(row)]
    there = {(row["length"], row["split"]): None for row in rows}
    return [
        f"at {length:,}" if split in (*SINGLE, FURTHER, BY_LENGTH) else f"at {length:,} ({split})"
        for length, split in there
    ]


def _tests(result: Result, rule: str) -> list[Evaluation]:
    """The scores of a rule's checkpoint; not those that tell more of a length that has one."""
    return [
        row
        for row in result["evaluations"]
        if (row["which"], row["kind"]) == (rule, "test")
        and row["value"] is not None
        and (row["metric"] in METRICS or row["metric"] == "scaled" or row["split"] == BY_LENGTH)
    ]


def _is_read(row: Evaluation) -> bool:
    known = row["split"] in (*SINGLE, FURTHER, BY_LENGTH)
    return known and row["length"] <= LONGEST and row["n"] <= MOST


def _once(rows: Iterable[Evaluation]) -> Scores:
    found: Scores = {}
    for row in rows:
        if found.setdefault(row["length"], row) is not row:
            raise UserError(f"it has two scores at {row['length']:,}")
    return found


def _refuse_number(tests: list[Evaluation], every: Scores, config: Config) -> None:
    """Raise UserError unless the number of a range follows from what each length gave."""
    settings: Any = config.protocol
    score = getattr(settings, "score", "pooled")
    numbers = [row for row in tests if row["split"] == "test" and row["metric"] in METRICS]
    if len(numbers) != 1:
        raise UserError(f"its test over a range has {len(numbers)} numbers")
    told, values = numbers[0]["value"], [row["value"] for row in every.values()]
    task = procedure_for(config).task
    least, most = min(values), max(values)
    if score == "mean":
        least = most = mean(values)
    elif score == "sequence":  # right throughout is right at the end as well
        least, most = 0.0, every[max(every)]["value"]
    elif task.metric.counts and not getattr(task, "averaged", False):
        strings = sum(row["n"] for row in every.values())
        least = most = math.fsum(row["value"] * row["n"] for row in every.values()) / strings
    if not least - CLOSE <= told <= most + CLOSE:
        raise UserError(f"its number, {told:.4f}, is not what its lengths give, {most:.4f}")
    for row in tests:
        if row["metric"] == "scaled" and not _is_scaled(row["value"], told, settings):
            raise UserError(f"its scaled number, {row['value']:.4f}, is not that of {told:.4f}")


def _is_scaled(value: float, accuracy: float, settings: Any) -> bool:
    """Whether an accuracy may give this number; where chance was measured, at most itself."""
    chance: float | None = getattr(settings, "chance", None)
    if chance is None or chance >= 1:
        return value <= accuracy + CLOSE
    return abs(value - (accuracy - chance) / (1 - chance)) <= CLOSE


def refuse_twice(rows: Iterable[Mapping[str, Any]]) -> None:
    """Raise UserError where a split has two scores: a table may show the other one."""
    seen: set[str] = set()
    for row in rows:
        if row["split"] in seen:
            raise UserError(f"it has two scores on {row['split']}")
        seen.add(row["split"])


# --- what `lrbench evaluate` added after the run


def misplaced(results: Mapping[str, Result], files: Mapping[str, bytes]) -> Iterator[BundleFinding]:
    """Yield which later scores would stand in a table as those of the test, if any do."""
    wrong = []
    for run, result in results.items():
        if over_corpus(result):
            continue  # any of its splits can be scored later
        file = re.compile(rf"{layout.RUNS}/{re.escape(run)}/{FOLDER}/[^./][^/]*\.json")
        for name in sorted(filter(file.fullmatch, files)):
            rows = layout.parsed(name, files[name]).get("evaluations") or []
            split = next((row["split"] for row in rows if row.get("split") != FURTHER), None)
            if split is not None:
                wrong.append(f"{name} has a score of the split {split}, which result.json tells")
    if wrong:
        yield finding("later scores", wrong, "")


def later_scores(files: Mapping[str, bytes], folder: str) -> Iterator[BundleFinding]:
    """Yield a finding where runs below `folder` have later scores: nobody scores them again."""
    runs: set[str] = set()
    lengths: set[int] = set()
    for name, data in files.items():
        run, _, rest = name.removeprefix(f"{folder}/").partition(f"/{FOLDER}/")
        if rest:
            runs.add(run)
            lengths |= _lengths(data)
    if runs:
        reach = f"{min(lengths):,} to {max(lengths):,}" if lengths else "no length that can be read"
        text = f"what `lrbench evaluate` added to {plural(len(runs), 'run')}, lengths {reach}"
        yield BundleFinding("later scores", OPEN, text)


def _lengths(data: bytes) -> set[int]:
    """Return the lengths in a file of evaluations; a stranger's file may hold anything."""
    try:
        rows = json.loads(data)["evaluations"]
        return {int(row["length"]) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()
