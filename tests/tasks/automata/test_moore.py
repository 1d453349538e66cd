"""What every task that is its automaton promises, whatever its table and its letters."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.automata.moore import MooreTask
from lrbench.tasks.base import IGNORE
from lrbench.tasks.machine import NOWHERE
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "test")
FIELDS = ("tokens", "targets")

LANGUAGES = {  # with the state of strings that are lost, where there is one
    "tomita_1": 2,
    "tomita_2": 3,
    "tomita_3": 5,
    "tomita_4": 4,
    "tomita_5": 4,
    "tomita_6": 3,
    "tomita_7": 5,
    "parity": 2,
    "even_pairs": 5,
    "aa_star": 3,
    "abab_star": 5,
    "first": 3,
    "repeat_01": 3,
    "d_n": 4,
    "no_long_run": 6,
}
# task, settings, states of its machine
ALL: list[tuple[str, dict[str, Any], int]] = [
    ("group", {"group": "S3"}, 6),
    ("group", {"group": "D4", "letters": "generators", "ask": "last"}, 8),
    ("group", {"group": "Z2xZ4", "letters": "generators", "identity": True}, 8),
    ("group", {"group": "A5", "letters": "generators"}, 60),
    ("dfa", {"states": 3}, 3),
    ("dfa", {"kind": "permutation", "target": "accept"}, 5),
    ("dfa", {"states": 8, "letters": 3, "kind": "reset", "ask": "last"}, 8),
    ("dfa", {"states": 4, "kind": "aperiodic", "automaton": 3}, 4),
    *(("regular", {"language": name}, states) for name, states in LANGUAGES.items()),
    ("regular", {"language": "d_n", "n": 3}, 5),
    ("dyck", {}, 31),
    ("dyck", {"kinds": 1, "depth": 1}, 2),
    ("flip_flop", {}, 10),
]
contract = settings(max_examples=8)


@pytest.mark.parametrize(
    ("name", "own", "uniform"),
    [
        ("group", {"group": "S3"}, True),
        ("group", {"group": "A5", "letters": "generators"}, True),
        ("group", {"group": "S3", "start_symbol": True}, True),
        ("group", {"group": "S3", "view": "cup"}, False),
        ("dfa", {"kind": "permutation"}, True),
        ("dfa", {"kind": "uniform"}, True),
        ("dfa", {"kind": "reset"}, False),
        ("flip_flop", {}, False),
        ("dyck", {}, False),
        ("slice_parity", {}, True),
        ("nnch_cycle_navigation", {"query": False}, True),
        ("nnch_modular_arithmetic", {"query": False}, True),
        ("nnch_parity_check", {}, False),
    ],
)
def test_who_says_that_symbols_are_uniform_draws_them_so(
    name: str, own: dict[str, Any], uniform: bool
) -> None:
    """Each symbol that may come after some beginning comes as often as any other, or none says."""
    task = make_task(TASKS.get(name).config(**own))
    assert task.uniform_letters == uniform
    if not uniform:
        return
    machine, rows = task.machine(), 20_000
    assert machine is not None
    may_come = (machine.table != NOWHERE).sum(1)
    strings = task.sample(STREAM, 0, rows, 3, "cpu").tokens.tolist()
    before = [[machine.start, *machine.walk(one)[:-1]] for one in strings]
    for place in range(len(strings[0])):
        symbols = torch.bincount(torch.tensor([one[place] for one in strings]))
        [choices] = {int(may_come[one[place]]) for one in before}
        expected, seen = rows / choices, symbols[symbols > 0]
        assert len(seen) == choices
        assert float((seen - expected).abs().max()) <= 6 * expected**0.5


def named(case: Any) -> str:
    name, own, _ = case
    return "-".join(map(str, (name, *own.values())))


@pytest.fixture(params=ALL, ids=named, scope="module")
def case(request: pytest.FixtureRequest) -> tuple[MooreTask, int]:
    name, own, states = request.param
    return make_task(TASKS.get(name).config(**own)), states


@pytest.fixture
def task(case: tuple[MooreTask, int]) -> MooreTask:
    return case[0]


def test_machine_answers_and_oracle_agree_on_every_short_string(case: Any) -> None:
    """All strings up to 7 letters, or as many as a few thousand: three ways to answer, one answer.

    Of strings that the machine has no edge for, only the answers up to there.
    """
    task, states = case
    machine = task.machine()
    assert (machine.states, machine.symbols) == (states, len(task.vocabulary))
    longest = next(
        (n - 1 for n in range(1, 8) if machine.symbols**n > 6000), 7
    )  # of six letters, four
    for length in range(1, longest + 1):
        if not task.valid_length(length):
            continue
        strings = itertools.product(range(machine.symbols), repeat=length)
        valid = [string for string in strings if walks(machine, string)]
        assert valid
        expected = [task.oracle(string) for string in valid]
        assert task.answers(torch.tensor(valid)).tolist() == expected
        for string, answers in zip(valid, expected, strict=True):
            reported = [IGNORE if one is None else one for one in machine.run(string)]
            if task.asks == "last":
                reported[:-1] = [IGNORE] * (length - 1)
            assert reported == answers


def walks(machine: Any, string: tuple[int, ...]) -> bool:
    try:
        machine.walk(string)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@contract
@given(length=st.integers(1, 60), step=st.integers(0, 10**6))
def test_samples_are_valid_strings_with_the_oracle_s_answers(
    case: Any, length: int, step: int
) -> None:
    task = case[0]
    length = task.nearest_length(max(length, shortest(task)))
    batch = task.sample(STREAM, step, 4, length, "cpu")
    assert batch.tokens.shape == batch.targets.shape == (4, length)
    assert batch.tokens.dtype == batch.targets.dtype == batch.lengths.dtype == torch.int64
    assert batch.lengths.tolist() == [length] * 4
    for string, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert walks(task.machine(), string)
        assert targets == task.oracle(string)
        assert targets[-1] != IGNORE


def shortest(task: MooreTask) -> int:
    return next(n for n in range(1, 100) if task.valid_length(n))


@pytest.mark.slow
@contract
@given(length=st.integers(4, 60), segment=st.integers(1, 61), step=st.integers(0, 10**6))
def test_segments_joined_equal_the_sample(case: Any, length: int, segment: int, step: int) -> None:
    task = case[0]
    length = task.nearest_length(length)
    whole = task.sample(STREAM, step, 3, length, "cpu")
    pieces = list(task.segments(STREAM, 3, length, segment, "cpu", step))
    for field in FIELDS:
        joined = torch.cat([getattr(piece, field) for piece in pieces], 1)
        assert torch.equal(joined, getattr(whole, field))
    assert sum(int(piece.lengths[0]) for piece in pieces) == length


@pytest.mark.slow
@contract
@given(rows=st.integers(1, 5), first=st.integers(1, 8), steps=st.integers(1, 3))
def test_rows_and_steps_do_not_depend_on_each_other(
    case: Any, rows: int, first: int, steps: int
) -> None:
    task = case[0]
    length = task.nearest_length(12)
    together = task.samples(STREAM.from_row(first), range(7, 7 + steps), rows, length, "cpu")
    assert len(together) == steps
    for step, batch in enumerate(together, 7):
        alone = task.sample(STREAM, step, first + rows, length, "cpu")
        for field in FIELDS:
            assert torch.equal(getattr(batch, field), getattr(alone, field)[first:])


@pytest.mark.parametrize("segment", [3, 4])
def test_pieces_that_are_written_to_do_not_change_later_ones(task: MooreTask, segment: int) -> None:
    length = task.nearest_length(31)
    whole = task.sample(STREAM, 0, 3, length, "cpu")
    targets = []
    for piece in task.segments(STREAM, 3, length, segment, "cpu"):
        targets.append(piece.targets.clone())
        piece.targets.zero_()
        piece.tokens.zero_()
    assert torch.equal(torch.cat(targets, 1), whole.targets)


@pytest.mark.slow
def test_the_end_of_a_long_string(task: MooreTask) -> None:
    length = task.nearest_length(2_001)
    pieces = list(task.segments(STREAM, 1, length, 250, "cpu"))
    tokens = torch.cat([piece.tokens for piece in pieces], 1)[0].tolist()
    state = task.machine().walk(tokens)[-1]
    assert pieces[-1].targets[0, -1].item() == task.machine().answers[state]


def test_names_and_symbols(task: MooreTask) -> None:
    assert len(set(task.vocabulary)) == len(task.vocabulary)
    assert len(set(task.class_names)) == task.num_classes
    assert TASKS.get(task.name).cls is type(task)


def test_what_is_no_string_is_asked_nothing() -> None:
    """An edge that is missing: nothing is asked from there on, and nothing breaks."""
    from lrbench.tasks.machine import Machine

    class Ones(MooreTask):
        vocabulary = class_names = ("0", "1")

        def oracle(self, tokens: Any) -> list[int]:
            raise AssertionError

    machine = Machine(("a",), 0, ((None, 0),), (1,))
    task = Ones(TASKS.get("group").config(), machine)
    assert task.answers(torch.tensor([[1, 1, 0, 1, 1]])).tolist() == [[1, 1] + [IGNORE] * 3]
