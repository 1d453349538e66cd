"""The sentence that a run's report begins with: the rule, the training length, or neither.

Random strings alone never show that a rule was learnt. So the sentence gives the length up to which
they are answered right, and what is known of all strings: a wrong one, a proof, or how far the
search went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lrbench.metrics import metric_of
from lrbench.protocols.base import declared
from lrbench.records import BY_LENGTH, Evaluation, Result
from lrbench.report.output.display import plural
from lrbench.report.runs.columns import Answer
from lrbench.report.runs.record import baselines_by_split, best_baseline
from lrbench.statistics import FEWEST_STRINGS, SOLVED, correct_of, passes, wilson

LONGEST_WORD = 40  # characters of a wrong string that are shown


def verdict_sentence(result: Result, rule: str, answer: Answer | None = None) -> str:
    """Return what the checkpoint of a rule has learnt; empty where nothing was scored.

    `answer` is what `lrbench certify` knows of it. Errors such as NRMSE have no such sentence.
    """
    rows = [
        row
        for row in result["evaluations"]
        if (row["kind"], row["which"], row["metric"]) == ("test", rule, "accuracy")
        and row["value"] is not None
    ]
    if not rows or not metric_of(result).counts:
        return ""
    if declared(result["protocol"]).by_split:
        return _on_splits(result, rows)
    return _at_lengths(result, rows, lengths_of_test(result, rule), answer)


def against_chance(value: float, n: int, chance: float | None) -> str:
    """Return an accuracy on n strings beside chance: above, at or below it."""
    shown = f"{value:.4f}"
    if chance is None:
        return shown
    if is_guessing(value, n, chance):
        _, high = wilson(correct_of(value, n), n)
        below = high < chance and value < chance / 2  # chance may be measured, so near it is at it
        return f"{shown}, {'below' if below else 'at'} chance ({chance:.2f})"
    return f"{shown} (chance {chance:.2f})"


def is_guessing(value: float, n: int, chance: float | None) -> bool:
    """Whether an accuracy on n strings is no better than chance, where chance is known."""
    return chance is not None and wilson(correct_of(value, n), n)[0] <= chance


def holds(value: float, n: int) -> bool:
    """Whether an accuracy on n strings counts as knowing them."""
    return passes(correct_of(value, n), n) if n >= FEWEST_STRINGS else value >= SOLVED


def lengths_of_test(result: Result, rule: str) -> dict[int, Evaluation]:
    """Return the scores of a test over a range of lengths, by length; of other tests nothing.

    Its one number is a mean, or of all strings together. A number of whole strings has no range:
    it is of the longest alone.
    """
    settings = result["config"].get("protocol")
    if isinstance(settings, dict) and settings.get("score") == "sequence":
        return {}
    found = {
        row["length"]: row
        for row in result["evaluations"]
        if (row["kind"], row["which"], row["split"]) == ("test", rule, BY_LENGTH)
        and row["value"] is not None
    }
    return found if len(found) > 1 else {}


def _at_lengths(
    result: Result, rows: Sequence[Evaluation], ranged: dict[int, Evaluation], answer: Answer | None
) -> str:
    by_length: dict[int, Evaluation] = {}
    for row in rows:
        if row["length"] not in by_length or row["n"] > by_length[row["length"]]["n"]:
            by_length[row["length"]] = row
    by_length |= ranged  # what is told of the longest length is the number of all
    lengths = sorted(by_length)
    trained = next((r["length"] for r in rows if r["split"] == "train_length"), None)
    tested = next((r["length"] for r in rows if r["split"] == "test"), lengths[-1])

    def chance_at(length: int) -> float | None:
        chance = best_baseline(result, length)
        return None if chance is None else chance["value"]

    def score(length: int) -> str:
        return against_chance(*_value(by_length[length]), chance_at(length))

    baseline = best_baseline(result, tested)
    if baseline is not None and baseline["value"] >= SOLVED:
        return (
            f"Nothing to learn: the baseline {baseline['baseline']} is right on"
            f" {baseline['value']:.4f} at {tested:,}"
        )
    if trained is not None and not holds(*_value(by_length[trained])):
        return f"Did not learn length {trained:,}: {score(trained)}"
    if answer is not None and answer.verdict == "certified":
        return "Certified: right on every string of every length"
    wrong = [length for length in lengths if not holds(*_value(by_length[length]))]
    if not wrong:
        return f"Holds on random strings to {lengths[-1]:,}, the longest tested; {_all(answer)}"
    held = max((length for length in lengths if length < wrong[0]), default=0)
    shown = tested if tested in wrong else wrong[0]
    guessed = is_guessing(*_value(by_length[shown]), chance_at(shown))
    if trained is None and not held and guessed:
        return f"Did not learn length {shown:,}: {score(shown)}"
    known = f"Learnt length {trained:,}" if trained is not None else "Learnt some strings"
    if held > (trained or 0):
        known = f"Holds on random strings to {held:,}"
    word = _wrong_string(answer)
    failure = f"; the shortest failure known is {word}" if word else ""
    return f"{known}, not the rule: {score(shown)} at {shown:,}{failure}"


def _value(row: Evaluation) -> tuple[float, int]:
    return row["value"], row["n"]


def _all(answer: Answer | None) -> str:
    """What is known of strings that are not random."""
    word = _wrong_string(answer)
    if word:
        return f"but wrong on {word}"
    if answer is None:
        return "other strings were not searched"
    if not answer.complete_to:
        return "no failure found among the strings that were searched"
    return f"no failure found among all strings to {answer.complete_to:,}"


def _wrong_string(answer: Answer | None) -> str:
    if answer is None or answer.length is None:
        return ""
    size = plural(answer.length, "symbol")
    return f"`{answer.string}`, {size}" if len(answer.string) <= LONGEST_WORD else f"one of {size}"


def _on_splits(result: Result, rows: Sequence[Evaluation]) -> str:
    """The worst and the best split, each beside its best baseline."""
    levels = baselines_by_split(result)
    splits = {row["split"]: row for row in rows}
    right = [name for name, row in splits.items() if holds(*_value(row))]
    if len(right) == len(splits):
        return f"Holds on random strings of every split that was tested: {', '.join(splits)}"
    worst, best = (pick(splits, key=lambda s: splits[s]["value"]) for pick in (min, max))
    said = [_score(splits[name], levels) for name in dict.fromkeys((best, worst))]
    return f"Right on {'; on '.join(said)}"


def _score(row: Evaluation, levels: Mapping[str, Mapping[str, tuple[float, int | None]]]) -> str:
    known = [value for value, _ in levels.get(row["split"], {}).values()]
    share = f"{row['value']:.4f} of {row['split']}"
    if not known:
        return share
    low, _ = wilson(correct_of(row["value"], row["n"]), row["n"])
    beaten = "baseline" if low > max(known) else "no better than the baseline,"
    return f"{share} ({beaten} {max(known):.3f})"
