from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.metrics import NRMSE
from lrbench.report.paper.reference import (
    Reference,
    measured_chance,
    printed,
    published,
    reference_dir,
)
from lrbench.report.paper.verdict import (
    Evidence,
    Guesser,
    Verdict,
    against,
    judge,
    mean_interval,
    printed_at_chance,
)

GUESSER = Guesser(0.2, 128, 40)


def reference(text: str = "0.90") -> Reference:
    return Reference(text, float(text), 500, "paper", "mean of 5", "S4", "best", 5)


def verdict(
    values: list[float], text: str | None = "0.90", comparable: bool = True, **changes: object
) -> Verdict | None:
    evidence = Evidence(values, [1.0] * len(values), GUESSER, **changes)  # type: ignore[arg-type]
    return judge(evidence, reference(text) if text else None, comparable)


@pytest.mark.parametrize(
    ("low", "high", "printed_number", "expected"),
    [
        (0.88, 0.92, "0.90", Verdict.REPRODUCED),  # exactly 0.02 on both sides
        (0.90, 0.90, "0.90", Verdict.REPRODUCED),
        (0.875, 0.9249, "0.90", Verdict.REPRODUCED),  # as printed: 0.88 and 0.92
        (0.8749, 0.92, "0.90", Verdict.INCONCLUSIVE),  # as printed: 0.87
        (0.88, 0.925, "0.90", Verdict.INCONCLUSIVE),
        (0.91, 0.92, "0.90", Verdict.REPRODUCED),  # above, yet within 0.02
        (0.91, 0.93, "0.90", Verdict.ABOVE),
        (0.904, 0.93, "0.90", Verdict.INCONCLUSIVE),  # 0.90 as printed is not above 0.90
        (0.905, 0.93, "0.90", Verdict.ABOVE),
        (0.87, 0.89, "0.90", Verdict.BELOW),
        (0.87, 0.8949, "0.90", Verdict.BELOW),
        (0.87, 0.895, "0.90", Verdict.INCONCLUSIVE),
        (0.0, 1.0, "0.90", Verdict.INCONCLUSIVE),
        (0.9771, 1.0, "0.9970", Verdict.REPRODUCED),
        (0.9769, 1.0, "0.9970", Verdict.INCONCLUSIVE),  # four digits: 0.0201 away
        (0.86, 0.94, "0.9", Verdict.REPRODUCED),  # one digit: 0.9 to 0.9
        (1.0, 1.0, "1.00", Verdict.REPRODUCED),
        (0.975, 1.0, "1.00", Verdict.REPRODUCED),
        (0.9749, 1.0, "1.00", Verdict.INCONCLUSIVE),
        (1.0, 1.0, "1", Verdict.REPRODUCED),
    ],
)
def test_an_interval_against_a_printed_number(
    low: float, high: float, printed_number: str, expected: Verdict
) -> None:
    assert against((low, high), printed_number) is expected


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 100))
def test_above_and_below_never_hold_the_number(a: float, b: float, hundredths: int) -> None:
    low, high = sorted((a, b))
    number = hundredths / 100
    found = against((low, high), f"{number:.2f}")
    if found in (Verdict.ABOVE, Verdict.BELOW):
        assert not low <= number <= high
    if found is Verdict.REPRODUCED:
        assert number - 0.0251 <= low <= high <= number + 0.0251


def test_the_interval_is_students_and_stays_among_accuracies() -> None:
    low, high = mean_interval([1.0, 1.0, 0.9])
    assert (low, high) == (pytest.approx(0.96667 - 4.30265 * 0.033333, abs=1e-4), 1.0)
    assert mean_interval([0.0, 0.0, 0.3])[0] == 0.0


def test_each_word_can_be_reached() -> None:
    assert verdict([0.90, 0.90, 0.90]) is Verdict.REPRODUCED
    assert verdict([0.97, 0.97, 0.98]) is Verdict.ABOVE
    assert verdict([0.70, 0.70, 0.71]) is Verdict.BELOW
    assert verdict([1.0, 0.9, 0.7]) is Verdict.INCONCLUSIVE
    assert verdict([0.28, 0.27, 0.28]) is Verdict.AT_CHANCE
    assert verdict([0.0, 0.02, 0.0]) is Verdict.BELOW_CHANCE
    assert verdict([0.9, 0.9, 0.9], comparable=False) is Verdict.NOT_COMPARABLE
    assert verdict([0.9, 0.9, 0.9], None) is Verdict.MISSING
    assert verdict([]) is Verdict.MISSING
    assert verdict([], failed=2) is Verdict.FAILED
    assert judge(Evidence([0.9] * 3, [0.3] * 3), reference()) is Verdict.NOT_LEARNED


@pytest.mark.parametrize("values", [[0.9], [0.9, 0.9]])
def test_there_is_none_for_fewer_than_three_runs(values: list[float]) -> None:
    assert verdict(values) is None
    assert judge(Evidence(values, [0.1] * len(values)), reference()) is None
    assert verdict([*values, 0.9, 0.9]) is Verdict.REPRODUCED


def test_not_learned_is_the_median_runs_and_comes_first() -> None:
    def trained(*accuracies: float) -> Verdict | None:
        return judge(Evidence([0.28] * 3, accuracies, GUESSER), reference())

    assert trained(0.94, 0.94, 1.0) is Verdict.NOT_LEARNED
    assert trained(0.2, 0.95, 1.0) is Verdict.AT_CHANCE
    assert judge(Evidence([0.9] * 3, [0.3] * 3), None, comparable=False) is Verdict.NOT_LEARNED


def test_without_training_accuracy_or_chance_the_number_still_speaks() -> None:
    assert judge(Evidence([0.9] * 3), reference()) is Verdict.REPRODUCED
    assert judge(Evidence([0.27] * 3), reference("0.27")) is Verdict.REPRODUCED


def test_below_chance_is_every_run_and_half_of_it_on_the_mean() -> None:
    assert verdict([0.0, 0.0, 0.19]) is Verdict.BELOW_CHANCE
    assert verdict([0.0, 0.0, 0.2]) is Verdict.AT_CHANCE  # a run as good as guessing
    assert verdict([0.11, 0.11, 0.11]) is Verdict.AT_CHANCE  # chance is measured: near it is at it
    assert verdict([0.0, 0.0, 0.0], None) is Verdict.BELOW_CHANCE
    assert verdict([0.0, 0.0, 0.9]) is Verdict.INCONCLUSIVE


def test_at_chance_needs_no_reference_and_no_comparable_protocol() -> None:
    assert verdict([0.27, 0.27, 0.28], None) is Verdict.AT_CHANCE
    assert verdict([0.27, 0.27, 0.28], comparable=False) is Verdict.AT_CHANCE
    assert verdict([0.1, 0.2, 0.9]) is Verdict.INCONCLUSIVE  # one run knows something


def test_runs_that_only_diverged_did_not_learn() -> None:
    assert verdict([], diverged=3) is Verdict.NOT_LEARNED
    assert verdict([], diverged=2) is None
    assert verdict([], diverged=3, failed=1) is Verdict.NOT_LEARNED


def test_a_mean_without_the_runs_that_diverged_is_not_as_good_as_the_papers() -> None:
    good, poor = [0.90, 0.90, 0.91, 0.90], [0.60, 0.61, 0.60, 0.61]
    assert verdict(good) is Verdict.REPRODUCED
    assert verdict(good, diverged=1) is Verdict.INCONCLUSIVE
    assert verdict(good, "0.80", diverged=1) is Verdict.INCONCLUSIVE  # above, but for one of five
    assert verdict(good, diverged=1, own_recipe=True) is Verdict.INCONCLUSIVE
    assert verdict(good, diverged=1, best_run=True) is Verdict.REPRODUCED  # by one run, whole
    assert verdict(poor, diverged=1) is Verdict.BELOW  # it would not be better with that run
    assert verdict(good, diverged=4) is Verdict.NOT_LEARNED  # half of them
    assert verdict(good[:2], diverged=5) is Verdict.NOT_LEARNED
    assert verdict(good[:2], diverged=1) is None  # two of three learnt; two are too few


def test_a_lower_error_without_the_runs_that_diverged_is_inconclusive() -> None:
    evidence = Evidence([0.10, 0.11, 0.10], metric=NRMSE, chance=1.0, diverged=1)
    assert judge(evidence, reference("0.20")) is Verdict.INCONCLUSIVE
    assert judge(evidence, reference("0.05")) is Verdict.ABOVE


@pytest.mark.parametrize("task", ["sum", "even_pair", "mod_arith"])
def test_the_papers_guesses_are_at_chance_and_its_own_model_is_not(task: str) -> None:
    found = printed(task, 5, "fan2024")
    looked = published("fan2024", task, 5)
    assert looked is not None
    p = measured_chance(task, 5, looked.test_length)
    assert p is not None
    guesser = Guesser(p, looked.strings, looked.looks)
    marks = {row.model: printed_at_chance(row, guesser) for row in found}
    with (reference_dir() / "lrnn_table2.csv").open(newline="") as file:
        models = {row["model"] for row in csv.DictReader(file)}
    assert marks == {model: not model.startswith("Ours") for model in models}
    assert len(models) == 4


def test_a_printed_number_is_marked_up_to_what_may_have_been_rounded() -> None:
    # 95 % of means of five trials stay up to 0.294: 0.29 may be less, 0.30 is 0.295 at least.
    assert printed_at_chance(reference("0.29"), GUESSER)
    assert not printed_at_chance(reference("0.30"), GUESSER)
    assert not printed_at_chance(reference("0.2999"), GUESSER)


def test_a_number_is_reached_not_reproduced_by_settings_of_our_own() -> None:
    assert verdict([0.9, 0.9, 0.9], own_recipe=True) is Verdict.REACHED
    assert verdict([0.9, 0.9, 0.9]) is Verdict.REPRODUCED
    assert verdict([0.5, 0.5, 0.5], own_recipe=True) is Verdict.BELOW
    assert verdict([0.9, 0.9], own_recipe=True) is None
