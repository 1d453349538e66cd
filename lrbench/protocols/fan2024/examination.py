"""The examination at the end of a run of `fan2024`: every kept checkpoint on fresh strings.

The horizon is the largest tested length up to which a model still knows the rule.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from lrbench.mixers.base import Mixer
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.records import (
    FURTHER,
    POSITIONS,
    Baseline,
    Evaluation,
    Float64,
    Guessing,
    Horizon,
    Look,
    evaluation,
)
from lrbench.statistics import FEWEST_STRINGS, SOLVED, guessing_best_of, horizon, passes
from lrbench.tasks.base import SampledTask
from lrbench.tasks.baselines import best_baseline, measure_baselines
from lrbench.training.examination import Kept, Section, each_kept
from lrbench.training.scoring import Score, score, symbols_of
from lrbench.training.trial import Check, Trial

STRINGS_AGAIN = 1000  # strings of the re-run in float64


def test_plan(task: SampledTask, protocol: Any) -> list[tuple[int, str, int]]:
    """Return (length, split, strings) of the final tests, each length once, shortest first.

    `test_size` strings at the training and the test lengths; a tenth at the further lengths, each
    the nearest valid one below. A fixed set of series is tested at the length it is trained at:
    that is a test.
    """
    fewer = max(1, protocol.test_size // 10)
    plan: dict[int, tuple[str, int]] = {}
    for length in protocol.further_lengths:
        plan[task.nearest_length(length)] = (FURTHER, fewer)
    for length in protocol.test_lengths:
        plan[length] = ("test", protocol.test_size)
    if not (task.fixed and protocol.train_length in protocol.test_lengths):
        plan[protocol.train_length] = ("train_length", protocol.test_size)
    return [(length, *plan[length]) for length in sorted(plan)]


def final_tests(
    trial: LengthTrial, kept: Kept, check: Check
) -> tuple[list[Evaluation], dict[str, Horizon]]:
    """Score the checkpoint that each rule kept; return (evaluation rows, horizon of each rule)."""
    plan = test_plan(trial.task, trial.config.protocol)
    tests = [(trial.stream("test", length), length, n) for length, _, n in plan]
    section = Section("tests", symbols_of(trial.task, tests), lambda: _examine(trial, check))
    return each_kept(trial, kept, [section], _looks_of, check)


def _examine(trial: LengthTrial, check: Check) -> tuple[list[Evaluation], Horizon | None]:
    """Return the rows of the tests, and the horizon; None for series: there are no longer ones."""
    rows: list[Evaluation] = []
    scores: list[Score] = []
    metric = trial.task.metric
    for length, split, n in test_plan(trial.task, trial.config.protocol):
        stream = trial.stream("test", length)
        result = score(
            trial.model,
            trial.task,
            stream,
            length,
            n,
            trial.device,
            by_position=trial.task.by_position,
            check=check,
        )
        scores.append(result)
        seconds = round(result.seconds, 3)
        rows.append(
            evaluation(
                length, split, metric.name, result.value, result.n, kind="test", seconds=seconds
            )
        )
    rows += at_every_position(scores, max(trial.config.protocol.test_lengths))
    if trial.task.fixed or not metric.counts:
        return rows, None
    return rows, horizon_of(trial, scores, check)


def horizon_of(trial: Trial, scores: list[Score], check: Check) -> Horizon:
    """Return where accuracy ends, with the first failing length scored again in float64.

    Lengths with fewer strings than can pass decide nothing, where others have enough.
    """
    enough = [one for one in scores if one.n >= FEWEST_STRINGS] or scores
    found: Any = horizon((one.length, one.correct, one.n) for one in enough)
    again = None
    if found["upper"] is not None:
        n = next(one.n for one in scores if one.length == found["upper"])
        again = rule_or_rounding(trial, found["upper"], n, check)
    made: Horizon = found | {"dtype": trial.dtype, "mode": trial.model.mode, "float64": again}
    return made


def at_every_position(scores: list[Score], curve: int) -> list[Evaluation]:
    """Return tokens and sequences at every length, and the curve of prefixes at one of them.

    Of averaged tasks, whose accuracy is that of tokens, the strings that are right everywhere.
    """
    rows = []
    for one in scores:
        if (counts := one.positions) is None:
            continue
        measured = [(one.length, "token", counts.token), (one.length, "sequence", counts.sequence)]
        if one.averaged:
            measured = [(one.length, "exact", counts.sequence)]
        elif one.length == curve:
            measured += [(length, "prefix", value) for length, value in counts.curve(curve)]
        rows += [
            evaluation(length, POSITIONS, metric, value, one.n, kind="test")
            for length, metric, value in measured
        ]
    return rows


def rule_or_rounding(trial: Trial, length: int, n: int, check: Check) -> Float64 | None:
    """Score the first failing length once more in float64: is it the rule or rounding?

    None of a model with a layer that does not compute in float64, of one that rounds to fewer bits
    (its copy would round as well), and of strings that are too few for right answers to pass.
    """
    if trial.rounding:
        return None
    mixers = (module for module in trial.model.modules() if isinstance(module, Mixer))
    if any(torch.float64 not in mixer.dtypes for mixer in mixers):
        return None
    exact = copy.deepcopy(trial.model).to(torch.float64)
    n = min(n, STRINGS_AGAIN)
    stream = trial.stream("test", length)
    check(planned=symbols_of(trial.task, [(stream, length, n)]))
    again = score(exact, trial.task, stream, length, n, trial.device, check=check)
    passed = passes(again.correct, again.n)
    if again.n < FEWEST_STRINGS and again.accuracy >= SOLVED:
        return None
    verdict: Any = "rounding" if passed else "rule"
    return {"length": length, "value": again.accuracy, "n": n, "verdict": verdict}


def _looks_of(trial: LengthTrial, look: Look, rule: str) -> list[Evaluation]:
    """Return the look a rule believed as evaluation rows; a band goes by its longest length."""
    lengths = (look["test_length"], trial.config.protocol.train_length)
    return look_rows(look, rule, *lengths, trial.config.protocol.band[1], trial.task.metric.name)


def look_rows(
    look: Look, rule: str, tested: int, trained: int, band: int, metric: str = "accuracy"
) -> list[Evaluation]:
    """Return a look as evaluation rows: at the tested length, the training length and the band."""
    values: Any = look
    parts = [("test", "test", tested), ("validation", "train_length", trained)]
    return [
        evaluation(
            *(length, split, name),
            *(values[f"{key}_{name}"], values[f"{key}_n"]),
            kind="look",
            which=rule,
        )
        for key, split, length in [*parts, ("band", "band", band)]
        for name in (metric, "loss")
        if f"{key}_{name}" in values
    ]


def baseline_strings(length: int) -> int:
    """Return how many strings chance is measured on: enough for two digits, fewer if very long."""
    return 10_000 if length <= 1000 else 1000


def chance_levels(trial: LengthTrial, check: Check) -> tuple[list[Baseline], list[Guessing]]:
    """Measure the baselines at every tested length, and what guessing under `best` would give.

    The rule chooses by looks, so it is guessed at their length alone. Nobody guesses numbers: a
    task that asks for them has baselines only.
    """
    protocol = trial.config.protocol
    looked = protocol.test_lengths[0]
    baselines: list[Baseline] = []
    guessing: list[Guessing] = []
    for length, split, _ in test_plan(trial.task, protocol):
        check()
        measured = baselines_at(trial, length)
        baselines += measured
        guessed = split == "test" and length == looked and "best" in trial.rules.names
        if guessed and trial.task.metric.counts:
            looks = -(-protocol.max_steps // protocol.look_every)
            best = best_baseline(measured)
            there = trial.task.available(trial.stream("look", length))
            strings = min(protocol.look_size, there or protocol.look_size)
            guessing.append(guessing_row(best, length, strings, looks))
    return baselines, guessing


def guessing_row(best: Baseline, length: int, strings: int, looks: int) -> Guessing:
    """Return what the rule `best` gives a guesser of the best baseline at a length."""
    answers = round(strings * best.get("answers", 1))
    value = guessing_best_of(best["value"], answers, looks)
    return {
        "rule": "best",
        "length": length,
        "value": value,
        "looks": looks,
        "strings": strings,
    }


def baselines_at(trial: Trial, length: int) -> list[Baseline]:
    """Return what knows nothing of the rule at a length, on strings of its own if not known."""
    stream, n = trial.stream("baseline", length), baseline_strings(length)
    return measure_baselines(trial.task, stream, length, n, trial.device)
