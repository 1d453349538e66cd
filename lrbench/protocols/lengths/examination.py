"""The examination at the end of a run on several lengths: a number for each kept checkpoint.

The number is one over a range of lengths. It stands in `evaluations` as the test at the longest of
them; what each length gave stands beside it, with the metric `at_length`, under the split
`by_length`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lrbench.protocols.base import declared
from lrbench.protocols.fan2024.examination import (
    at_every_position,
    baselines_at,
    horizon_of,
    look_rows,
)
from lrbench.protocols.lengths.scoring import score_each
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.records import BY_LENGTH, Baseline, Evaluation, Guessing, Horizon, Look, evaluation
from lrbench.statistics import FEWEST_STRINGS, guessing_best_of
from lrbench.tasks.base import SampledTask
from lrbench.tasks.baselines import best_baseline
from lrbench.training.examination import Kept, Section, each_kept
from lrbench.training.scoring import Score, pooled, symbols_of
from lrbench.training.trial import Check

TRAIN_STRINGS = 2048  # of the training lengths, at most
CHANCE_LENGTHS = 5  # of a range, that chance is measured at


def lengths_tested(trial: LengthsTrial) -> list[int]:
    """Return the lengths that are tested, each a valid one, shortest first."""
    return lengths_in(trial.task, trial.config.protocol.test)


def lengths_in(task: SampledTask, test: Any) -> list[int]:
    """Return the lengths of a range that are tested, those of `task` or the nearest below."""
    wanted = range(test.lengths[0], test.lengths[1] + 1, test.stride)
    return sorted({task.nearest_length(length) for length in wanted})


def final_tests(
    trial: LengthsTrial, kept: Kept, check: Check
) -> tuple[list[Evaluation], dict[str, Horizon]]:
    """Score the checkpoint that each rule kept; return (evaluation rows, horizon of each rule)."""
    section = Section("tests", _planned(trial), lambda: _examine(trial, check))
    return each_kept(trial, kept, [section], looks_of, check)


def _planned(trial: LengthsTrial) -> int:
    """Return how many symbols the tests of a checkpoint read, about as many where drawn."""
    protocol, task = trial.config.protocol, trial.task
    test = protocol.test
    if test.mix == "step":
        tests = [
            (trial.stream("test", length), length, test.strings) for length in lengths_tested(trial)
        ]
        total = symbols_of(task, tests)
    else:
        total = test.strings * _middle(trial, test.lengths)
    if protocol.train_lengths[1] != test.lengths[1]:
        total += min(test.strings, TRAIN_STRINGS) * _middle(trial, protocol.train_lengths)
    return total


def _middle(trial: LengthsTrial, span: Sequence[int]) -> int:
    """Return the symbols of a string of a range of lengths, on average about."""
    return sum(trial.task.positions(trial.task.nearest_length(end)) for end in span) // len(span)


def number(scores: list[Score], how: str) -> float:
    """Return the one number that scores at several lengths make.

    how: `mean` over lengths, `sequence`, the share of strings that are right throughout at the
    longest, or else the share of all strings.
    """
    if how == "mean":
        return sum(one.value for one in scores) / len(scores)
    if how == "sequence":
        positions = scores[-1].positions
        assert positions is not None
        return positions.sequence
    return pooled(scores)


def scaled(accuracy: float, chance: float) -> float:
    """Return an accuracy on the scale that has chance at 0 and no mistakes at 1."""
    return (accuracy - chance) / (1 - chance)


def _examine(trial: LengthsTrial, check: Check) -> tuple[list[Evaluation], Horizon | None]:
    """Return the rows of the tests, and the horizon where lengths were tested one by one."""
    protocol, task = trial.config.protocol, trial.task
    test, lengths = protocol.test, lengths_tested(trial)
    if test.mix == "step":
        scores = score_each(
            trial.model,
            task,
            lambda length: trial.stream("test", length),
            lengths,
            test.strings,
            trial.device,
            check,
        )
    else:
        scores, _ = trial.scored(trial.stream("test"), test.lengths, test.strings, check)
    longest, n = test.lengths[1], sum(one.n for one in scores)
    value = number(scores, protocol.score)
    seconds = round(sum(one.seconds for one in scores), 3)
    rows = [
        evaluation(longest, "test", "accuracy", value, n, kind="test", seconds=seconds),
    ]
    if protocol.train_lengths[1] != longest:
        rows.insert(0, _where_trained(trial, check))
    if protocol.score == "scaled" and (chance := _chance(trial)) < 1:
        share = scaled(value, chance)
        rows.append(evaluation(longest, "test", "scaled", share, n, kind="test"))
    rows += [
        evaluation(one.length, BY_LENGTH, "at_length", one.value, one.n, kind="test")
        for one in scores
    ]
    if not scores[-1].averaged:
        rows += at_every_position(scores[-1:], scores[-1].length)
    if test.mix == "row" or len(lengths) == 1 or test.strings < FEWEST_STRINGS:
        return rows, None
    return rows, horizon_of(trial, scores, check)


def _where_trained(trial: LengthsTrial, check: Check) -> Evaluation:
    """Return the accuracy on fresh strings of the training lengths, in a row of the longest."""
    protocol = trial.config.protocol
    span, strings = protocol.train_lengths, min(protocol.test.strings, TRAIN_STRINGS)
    scores, _ = trial.scored(trial.stream("test", "train"), span, strings, check)
    n = sum(one.n for one in scores)
    return evaluation(span[1], "train_length", "accuracy", pooled(scores), n, kind="test")


def looks_of(trial: LengthsTrial, look: Look, rule: str) -> list[Evaluation]:
    """Return the look a rule believed as evaluation rows; a range goes by its longest length."""
    protocol = trial.config.protocol
    ends = (protocol.look.lengths[1], protocol.train_lengths[1], protocol.band[1])
    return look_rows(look, rule, *ends)


def chance_levels(trial: LengthsTrial, check: Check) -> tuple[list[Baseline], list[Guessing]]:
    """Measure the baselines over the tested lengths, and what guessing by the paper's rule gives.

    A guesser by it has the best of as many looks as a run may take, or of as many runs as the paper
    put together by their best.
    """
    protocol, lengths = trial.config.protocol, lengths_tested(trial)
    most = min(CHANCE_LENGTHS, len(lengths))
    some = sorted({lengths[i * (len(lengths) - 1) // max(1, most - 1)] for i in range(most)})
    trained = trial.task.nearest_length(protocol.train_lengths[1])
    measured = []
    for length in some:
        check()
        measured.append(baselines_at(trial, length))
    longest = protocol.test.lengths[1]
    over = _over(measured, longest)
    if protocol.score == "sequence":  # right by chance at every position
        over = [{**one, "value": one["value"] ** lengths[-1]} for one in over]
    baselines = over if trained == longest else [*baselines_at(trial, trained), *over]
    declaration: Any = declared(protocol.name)
    rule = declaration.usual_rule
    looks = -(-protocol.max_steps // protocol.look_every) if rule == "best" else 1
    strings = protocol.look.strings if rule == "best" else _strings(trial, lengths)
    together = declaration.paper_runs if protocol.runs == "max" else 1
    best = best_baseline(over)
    answers = round(strings * best.get("answers", 1))
    guess: Guessing = {
        "rule": rule,
        "length": longest,
        "value": guessing_best_of(best["value"], answers, looks * together),
        "looks": looks * together,
        "strings": strings,
    }
    return baselines, [guess]


def _strings(trial: LengthsTrial, lengths: list[int]) -> int:
    test = trial.config.protocol.test
    return int(test.strings * (len(lengths) if test.mix == "step" else 1))


def _over(measured: list[list[Baseline]], longest: int) -> list[Baseline]:
    """Return baselines averaged over lengths, in rows of the longest."""
    found: list[Baseline] = []
    for of_one in zip(*measured, strict=True):
        value = sum(one["value"] for one in of_one) / len(of_one)
        n = sum(one["n"] for one in of_one)
        row: Baseline = {
            "baseline": of_one[0]["baseline"],
            "length": longest,
            "value": value,
            "n": n,
        }
        if "answers" in of_one[0]:
            row["answers"] = sum(one["answers"] for one in of_one) / len(of_one)
        found.append(row)
    return found


def _chance(trial: LengthsTrial) -> float:
    """Return the chance that a scaled accuracy has at 0: the paper's, else the best baseline's."""
    chance: float | None = trial.config.protocol.chance
    if chance is not None:
        return chance
    length = trial.task.nearest_length(trial.config.protocol.test.lengths[1])
    return best_baseline(baselines_at(trial, length))["value"]
