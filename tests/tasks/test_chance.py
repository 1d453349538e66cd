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
from lrbench.tasks.base import IGNORE
from lrbench.tasks.baselines import known_baselines, measure_baselines
from lrbench.tasks.chance import exact_baselines
from lrbench.tasks.stream import Stream

SMALL = [
    ("sum", 3, 4),
    ("parity", 2, 5),
    ("even_pair", 3, 4),
    ("even_pair", 5, 1),
    ("mod_arith", 3, 5),
    ("mod_arith", 4, 3),
    ("mod_arith_ltr", 3, 5),
]


def task_of(name: str, modulus: int = 5) -> Any:
    return make_task(TASKS.get(name).config(modulus=modulus))


def every_string(name: str, modulus: int, length: int) -> list[tuple[int, ...]]:
    """Return all strings of the tasks' own descriptions; all are equally likely."""
    numbers, operators = range(modulus), range(modulus, modulus + 3)
    odd = operators if name.startswith("mod_arith") else numbers
    return list(product(*(odd if place % 2 else numbers for place in range(length))))


def by_counting(name: str, modulus: int, length: int) -> dict[str, float]:
    """Fit and score each baseline on all strings, answered by the task's oracle."""
    task = task_of(name, modulus)
    everywhere: Counter[int] = Counter()
    by_token: dict[int, Counter[int]] = defaultdict(Counter)
    strings = every_string(name, modulus, length)
    for string in strings:
        answers = task.oracle(string)
        everywhere.update(answer for answer in answers if answer != IGNORE)
        by_token[string[-1]][answers[-1]] += 1
    last = sum(by_token.values(), Counter())
    most = min(everywhere, key=lambda answer: (-everywhere[answer], answer))
    right = {
        "majority": last[most],
        "position": max(last.values()),
        "last_token": sum(max(count.values()) for count in by_token.values()),
    }
    shares = {name: Fraction(count, len(strings)) for name, count in right.items()}
    return {"uniform": 1 / task.num_classes, **{name: float(v) for name, v in shares.items()}}


@pytest.mark.parametrize(("name", "modulus", "length"), SMALL)
def test_they_are_those_of_all_strings(name: str, modulus: int, length: int) -> None:
    found = exact_baselines(task_of(name, modulus), length)
    assert found == pytest.approx(by_counting(name, modulus, length), abs=1e-9)


@pytest.mark.parametrize(("name", "length"), [("mod_arith", 39), ("mod_arith_ltr", 39)])
def test_drawn_strings_come_near(name: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, stream = task_of(name), Stream.named(0, "baselines")
    exact = exact_baselines(task, length)
    monkeypatch.setattr("lrbench.tasks.baselines.exact_baselines", lambda task, length: None)
    drawn = measure_baselines(task, stream, length, 20_000, "cpu")
    assert {row["baseline"]: row["value"] for row in drawn} == pytest.approx(exact, abs=0.012)


def test_a_sum_of_five_is_a_fifth_and_an_even_pair_four_at_any_length() -> None:
    for length in (40, 500, 1_000_000):
        assert set((exact_baselines(task_of("sum"), length) or {}).values()) == {0.2}
        found = exact_baselines(task_of("even_pair"), length)
        rest = dict.fromkeys(("majority", "position", "last_token"), 0.8)
        assert found == {"uniform": 0.5} | rest


def test_rows_tell_that_they_are_exact_and_unknown_ones_are_measured() -> None:
    rows = known_baselines(task_of("sum"), 40)
    assert [(row["length"], row["value"], row["n"]) for row in rows or []] == [(40, 0.2, 0)] * 4
    for task in (task_of("sum", 33), make_task(TASKS.get("dyck").config())):
        assert known_baselines(task, 40) is None
    with pytest.raises(UserError, match="no strings of length 40"):
        measure_baselines(task_of("mod_arith"), Stream.named(0, "x"), 40, 10, "cpu")
