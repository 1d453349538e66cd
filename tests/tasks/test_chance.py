"""Exact baselines: against every string that there is, against drawn ones, at any length."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, LabelledTask
from lrbench.tasks.baselines import drawn_baselines, known_baselines, measure_baselines
from lrbench.tasks.chance import exact_baselines
from lrbench.tasks.stream import Stream

Weighted = list[tuple[tuple[int, ...], Fraction]]  # every string that there is, and its probability


def task_of(name: str, **settings: Any) -> Any:
    return make_task(TASKS.get(name).config(**settings))


def uniform(*places: Any) -> Weighted:
    """Return all strings with one of the given symbols at each place, equally likely."""
    strings = list(product(*places))
    return [(string, Fraction(1, len(strings))) for string in strings]


def weighted(*places: dict[int, Fraction]) -> Weighted:
    """Return all strings with symbols of given probabilities at each place."""
    found = []
    for string in product(*places):
        weight = Fraction(1)
        for place, symbol in zip(places, string, strict=True):
            weight *= place[symbol]
        found.append((string, weight))
    return found


def brackets(length: int, deepest: int) -> Weighted:
    """Return all beginnings of words of one kind of brackets: each legal one is equally likely."""
    found: Weighted = [((), Fraction(1))]
    for _ in range(length):
        longer: Weighted = []
        for string, weight in found:
            depth = string.count(0) - string.count(1)
            legal = [symbol for symbol in (0, 1) if 0 <= depth + (-1) ** symbol <= deepest]
            longer += [((*string, symbol), weight / len(legal)) for symbol in legal]
        found = longer
    return found


def only_ones(length: int) -> Weighted:
    """Return all strings of Tomita's first language: until the first 0 it comes with 1/L."""
    found = []
    for string in product((0, 1), repeat=length):
        first = string.index(0) if 0 in string else length
        rare, rest = Fraction(1, length), Fraction(1, 2) ** max(length - first - 1, 0)
        found.append((string, (1 - rare) ** first * (rare if first < length else 1) * rest))
    return found


NUMBERS, OPERATORS = range(5), range(5, 8)
EXPRESSION = (NUMBERS, OPERATORS, NUMBERS, OPERATORS, NUMBERS)
BITS = {3: Fraction(1, 2), 4: Fraction(1, 2)}
LETTERS = {0: Fraction(3, 10), 1: Fraction(3, 10), 2: Fraction(4, 10)}
SWAPS, CUPS = range(4), range(6, 9)  # of S3: e and the swaps; the cups behind all six letters

# a task, a length, its strings by the task's own description, and where the last symbol stands
SMALL: list[tuple[Any, int, Weighted, int]] = [
    (task_of("sum", modulus=3), 4, uniform(*[range(3)] * 4), -1),
    (task_of("parity"), 5, uniform(*[range(2)] * 5), -1),
    (task_of("even_pair", modulus=3), 4, uniform(*[range(3)] * 4), -1),
    (task_of("even_pair"), 1, uniform(range(5)), -1),
    (task_of("mod_arith", modulus=3), 5, uniform(*[range(3), range(3, 6)] * 2, range(3)), -1),
    (task_of("mod_arith", modulus=4), 3, uniform(range(4), range(4, 7), range(4)), -1),
    (task_of("mod_arith_ltr"), 5, uniform(*EXPRESSION), -1),
    (task_of("group", group="S3"), 4, uniform(*[range(6)] * 4), -1),
    (task_of("group", group="S3", ask="last"), 3, uniform(*[range(6)] * 3), -1),
    (task_of("group", group="S3", letters="swaps"), 5, uniform(*[SWAPS] * 5), -1),
    (
        task_of("group", group="S3", letters="swaps", start_symbol=True),
        4,
        uniform((4,), *[SWAPS] * 4),
        -1,
    ),
    (task_of("group", group="S3", view="cup"), 3, uniform(*[range(6)] * 3, CUPS), -2),
    (
        task_of("group", group="S3", view="cup", letters="swaps", start_symbol=True),
        3,
        uniform((7,), *[SWAPS] * 3, range(4, 7)),
        -2,
    ),
    (task_of("dfa", states=3), 6, uniform(*[range(2)] * 6), -1),
    (
        task_of("dfa", states=4, letters=3, kind="reset", reset_p=0.4),
        4,
        weighted(*[LETTERS] * 4),
        -1,
    ),
    (task_of("dyck", kinds=1, depth=2), 7, brackets(7, 2), -1),
    (task_of("regular", language="tomita_1"), 6, only_ones(6), -1),
    (
        task_of("flip_flop", ignore=0.4),
        8,
        weighted({0: Fraction(1)}, BITS, *[LETTERS, BITS] * 2, {1: Fraction(1)}, BITS),
        -1,
    ),
    (task_of("nnch_modular_arithmetic"), 5, uniform(*EXPRESSION, (9,)), -2),
    (task_of("nnch_modular_arithmetic", query=False), 5, uniform(*EXPRESSION), -1),
    (task_of("nnch_cycle_navigation"), 4, uniform(*[range(3)] * 4, (3,)), -2),
    (task_of("xlstm_parity"), 5, uniform(*[range(2)] * 4), -1),
    (task_of("slice_modular_arithmetic"), 4, uniform(*EXPRESSION[:3], (9,)), -2),
]


def by_counting(task: Any, strings: Weighted, read: int) -> dict[str, float]:
    """Fit and score each baseline on all strings, answered by the task's oracle."""
    assert sum(weight for _, weight in strings) == 1
    everywhere: dict[int, Fraction] = defaultdict(Fraction)
    by_token: dict[int, Counter[int]] = defaultdict(Counter)
    for string, weight in strings:
        answers = task.oracle(string)
        for answer in answers:
            if answer != IGNORE:
                everywhere[answer] += weight
        by_token[string[read]][answers[-1]] += weight  # type: ignore[assignment]
    last = sum(by_token.values(), Counter())
    most = min(everywhere, key=lambda answer: (-everywhere[answer], answer))
    right = {
        "majority": last[most],
        "position": max(last.values()),
        "last_token": sum(max(count.values()) for count in by_token.values()),
    }
    return {"uniform": 1 / task.num_classes, **{name: float(v) for name, v in right.items()}}


@pytest.mark.parametrize(
    ("task", "length", "strings", "read"),
    SMALL,
    ids=[f"{task.name} at {length}" for task, length, _, _ in SMALL],
)
def test_they_are_those_of_all_strings(
    task: Any, length: int, strings: Weighted, read: int
) -> None:
    found = exact_baselines(task, length)
    assert found == pytest.approx(by_counting(task, strings, read), abs=2e-9)


def test_drawn_strings_come_near() -> None:
    """Of all tasks that tell how they draw, by their defaults; `uniform` is the same number."""
    told, stream = [], Stream.named(0, "baselines")
    for name in TASKS.names():
        if not issubclass(TASKS.get(name).cls, LabelledTask):
            continue
        task = task_of(name)
        length = task.nearest_length(39)
        if (exact := exact_baselines(task, length)) is None:
            continue
        drawn = drawn_baselines(task, stream, length, 4_000, "cpu")
        assert {one["baseline"]: one["value"] for one in drawn} == pytest.approx(exact, abs=0.035)
        told.append(name)
    assert {"sum", "mod_arith", "group", "dfa", "flip_flop", "dyck", "regular"} <= set(told)
    assert len([name for name in told if name.startswith(("nnch_", "xlstm_", "slice_"))]) == 12


def test_a_sum_of_five_is_a_fifth_and_an_even_pair_four_at_any_length() -> None:
    for length in (40, 500, 1_000_000):
        assert set((exact_baselines(task_of("sum"), length) or {}).values()) == {0.2}
        found = exact_baselines(task_of("even_pair"), length)
        rest = dict.fromkeys(("majority", "position", "last_token"), 0.8)
        assert found == {"uniform": 0.5} | rest


def test_a_group_is_one_in_its_elements() -> None:
    for length in (40, 1_000_000):
        found = exact_baselines(task_of("group", group="A5"), length)
        assert set((found or {}).values()) == {round(1 / 60, 9)}


def test_whoever_draws_otherwise_than_is_told_is_measured() -> None:
    group, total = TASKS.get("group"), TASKS.get("sum")

    class Biased(group.cls):  # type: ignore[name-defined,misc]
        def _letters(self, *place: Any) -> Any:
            return super()._letters(*place).clamp(max=1)

    class Renamed(group.cls):  # type: ignore[name-defined,misc]
        @property
        def title(self) -> str:
            return "renamed"

    class Skewed(total.cls):  # type: ignore[name-defined,misc]
        def _tokens(self, *place: Any) -> Any:
            return super()._tokens(*place).clamp(max=1)

    class Averaged(group.cls):  # type: ignore[name-defined,misc]
        averaged = True

    assert exact_baselines(Renamed(group.config()), 40) is not None
    for task in (Biased(group.config()), Averaged(group.config()), Skewed(total.config())):
        assert exact_baselines(task, 40) is None


def test_rows_tell_that_they_are_exact_and_unknown_ones_are_measured() -> None:
    rows = known_baselines(task_of("sum"), 40)
    assert [(row["length"], row["value"], row["n"]) for row in rows or []] == [(40, 0.2, 0)] * 4
    for task in (task_of("sum", modulus=33), task_of("nnch_reverse_string")):
        assert known_baselines(task, 40) is None
    with pytest.raises(UserError, match="no strings of length 40"):
        measure_baselines(task_of("mod_arith"), Stream.named(0, "x"), 40, 10, "cpu")
