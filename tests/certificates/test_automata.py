"""The checker's own automata are the tasks: what each asks, and what a file says it asks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.certificates import check
from lrbench.certificates.check.automata import BY_RULE, OF_FILE
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.machine import Machine

from .certificate import Certificate, claimed, config_of, machine_of

BY_THEIR_RULE: list[tuple[str, Any]] = [
    ("sum", 5),
    ("parity", 2),
    ("even_pair", 4),
    ("mod_arith", 3),
    ("mod_arith_ltr", 3),
    ("mod_arith_ltr", 5),
    ("flip_flop", {}),
    ("group", {"group": "S3"}),
    ("group", {"group": "S4", "letters": "swaps"}),
    ("group", {"group": "S4", "letters": "swaps", "identity": False}),
    ("group", {"group": "A5", "letters": "move_at_most", "letters_arg": 3}),
    ("group", {"group": "A4", "ask": "last"}),
    ("group", {"group": "Z6", "letters": "generators"}),
    ("group", {"group": "D5"}),
    ("group", {"group": "D2"}),
    ("group", {"group": "A5", "letters": "generators", "identity": True}),
    ("group", {"group": "S4", "letters": "random", "letters_arg": 3}),
    ("group", {"group": "A4xZ2"}),
    ("group", {"group": "Z2xS3"}),
]
OF_THE_FILE: list[tuple[str, Any]] = [
    ("dfa", {}),
    ("dfa", {"kind": "permutation", "states": 4, "automaton": 3}),
    ("dfa", {"kind": "reset", "states": 4, "letters": 3}),
    ("dfa", {"target": "accept", "kind": "aperiodic"}),
    *(("regular", {"language": name}) for name in ("tomita_3", "tomita_5", "d_n", "abab_star")),
    ("dyck", {"depth": 3}),
]


def arrays_of(machine: Machine) -> dict[str, Any]:
    return {
        "task/start": np.array(machine.start, np.int32),
        "task/edges": machine.table.astype(np.int32),
        "task/answers": machine.targets.astype(np.int32),
    }


@pytest.mark.parametrize(("task", "settings"), [*BY_THEIR_RULE, *OF_THE_FILE])
def test_the_checkers_automaton_answers_as_the_oracle(task: str, settings: Any) -> None:
    """On every word of up to 5 symbols, of large alphabets on the first 5,000."""
    asking, machine = make_task(config_of(task, settings)), machine_of(task, settings)
    claim = claimed(task, settings)
    arrays = arrays_of(machine)
    made = check.automaton(claim, arrays, machine.symbols)
    by_rule = task != "group" or settings.get("letters") not in ("generators", "random")
    known = (task, settings) in BY_THEIR_RULE and by_rule  # else which letters, the file tells
    assert made.source == (BY_RULE if known else OF_FILE)
    words = itertools.chain(
        *(itertools.product(range(machine.symbols), repeat=n) for n in range(1, 6))
    )
    asked = 0
    for word in itertools.islice(words, 5000):
        state: int | None = made.start
        for symbol in word:
            state = None if state is None else made.delta[state][symbol]
        try:
            machine.walk(word)
        except ValueError:
            assert state is None
            continue
        assert state is not None
        right = asking.oracle(word)[-1] if asking.valid_length(len(word)) else None
        if right is not None:
            assert (made.answers[state] if made.answers[state] is not None else IGNORE) == right
            asked += right != IGNORE
    assert asked > 3
    if made.source == BY_RULE:
        alone = check.automaton(claim, {}, machine.symbols)
        assert check.same_language(alone, made) and alone.digest() == made.digest()


@pytest.mark.parametrize(("task", "settings"), BY_THEIR_RULE)
def test_an_automaton_of_another_language_is_refused(task: str, settings: Any) -> None:
    """One edge, or one answer, that is another: wherever it is."""
    machine, claim = machine_of(task, settings), claimed(task, settings)
    rng = np.random.default_rng(0)
    for part in ("task/edges", "task/answers") * 20:
        arrays = arrays_of(machine)
        array = arrays[part].reshape(-1)
        place = int(rng.integers(array.size))
        most = machine.states if part == "task/edges" else 1 + int(machine.targets.max())
        others = [v for v in range(-1, most) if v != array[place]]
        array[place] = rng.choice(others)
        start = part == "task/answers" and place == machine.start
        if start and not (machine.table == machine.start).any():
            continue  # nothing is asked of the empty string
        with pytest.raises(check.Refused):
            check.automaton(claim, arrays, machine.symbols)


DFA: dict[str, Any] = {"kind": "permutation", "states": 4, "automaton": 3}
OTHERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("group", {"group": "S3"}, {"group": "Z6"}),
    ("group", {"group": "S3"}, {"group": "S7"}),
    ("group", {"group": "S3"}, {"group": "Z1024xZ1024"}),
    ("group", {"group": "S3"}, {"group": "x" * 500}),
    ("group", {"group": "S3"}, {"group": 3}),
    ("group", {"group": "S4", "letters": "swaps"}, {"letters": "all"}),
    ("group", {"group": "S4", "letters": "swaps"}, {"identity": False}),
    ("group", {"group": "S4", "letters": "swaps"}, {"letters": "generators"}),
    ("group", {"group": "Z6", "letters": "generators"}, {"letters": "swaps"}),
    ("flip_flop", {}, {"ignore": 1.0}),
    ("flip_flop", {}, {"ignore": "0.8"}),
    ("mod_arith_ltr", 5, {"modulus": 4}),
    ("dfa", DFA, {"states": 5}),
    ("dfa", DFA, {"letters": 3}),
    ("dfa", DFA, {"target": "accept"}),
    ("dfa", DFA, {"kind": "none"}),
    ("dfa", {"kind": "uniform"}, {"kind": "permutation"}),
    ("dfa", {"kind": "uniform"}, {"kind": "reset"}),
    ("regular", {}, {"n": None, "more": 1}),
    ("dyck", {"depth": 3}, {"depth": 4}),
    ("dyck", {"depth": 3}, {"kinds": 10**9}),
]


@pytest.mark.parametrize(("task", "settings", "news"), OTHERS)
def test_settings_that_the_automaton_does_not_have_are_refused(
    task: str, settings: Any, news: dict[str, Any]
) -> None:
    machine, claim = machine_of(task, settings), claimed(task, settings)
    check.automaton(claim, arrays_of(machine), machine.symbols)
    claim["settings"] |= news
    with pytest.raises(check.Refused):
        check.automaton(claim, arrays_of(machine), machine.symbols)


@pytest.mark.parametrize(
    ("task", "settings", "source"),
    [
        ("group", {"group": "S3"}, BY_RULE),
        ("group", {"group": "D4", "letters": "generators"}, OF_FILE),
        ("dfa", DFA, OF_FILE),
        ("regular", {"language": "tomita_5"}, OF_FILE),
    ],
)
def test_tasks_of_every_kind_are_certified(
    tmp_path: Path, task: str, settings: Any, source: str
) -> None:
    """By networks that are right by construction; without its automaton a random table is not."""
    mine = Certificate(tmp_path, task, settings, 2.5)
    found = mine.checked()
    assert found["margin"] > 1 and found["automaton"].source == source
    lines = "\n".join(check.about(found))
    assert ("that it is the task's was not checked" in lines) == (source == OF_FILE)
    assert f"sha256 {found['automaton'].digest()}" in lines
    assert "was not checked" not in "\n".join(check.about(found, compared=True))
    if source == OF_FILE:
        for part in ("start", "edges", "answers"):
            del mine.arrays[f"task/{part}"]
        with pytest.raises(check.Refused, match=r"the one in the file|must be in the file"):
            mine.checked()


def test_a_digest_is_of_the_automaton_and_not_of_its_numbers() -> None:
    machine = machine_of("even_pair", 3)
    rows = [list(row) for row in machine.delta]
    one = check.Automaton(machine.start, rows, list(machine.answers))
    turn = np.random.default_rng(0).permutation(machine.states)
    back = np.argsort(turn)
    delta = [[None if to is None else int(turn[to]) for to in rows[q]] for q in back]
    answers = [machine.answers[q] for q in back]
    other = check.Automaton(int(turn[machine.start]), delta, answers)
    assert one.digest() == other.digest() and check.same_language(one, other)
    at = int(turn[machine.start])
    to = delta[at][0]
    assert to is not None
    answers[to] = None
    changed = check.Automaton(at, delta, answers)
    assert one.digest() != changed.digest() and not check.same_language(one, changed)
