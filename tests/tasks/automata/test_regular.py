"""Words of regular languages, brackets, flip-flops: how strings are drawn, what is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lrbench.tasks import make_task
from lrbench.tasks.automata.dyck import DyckConfig
from lrbench.tasks.automata.flip_flop import READ, WRITE, FlipFlopConfig
from lrbench.tasks.automata.languages import DEAD, NAMES, language
from lrbench.tasks.automata.regular import RegularConfig
from lrbench.tasks.base import IGNORE
from lrbench.tasks.machine import minimised
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "test")
WORDS = {  # in a language, and not
    "tomita_1": ("1111", "101"),
    "tomita_2": ("1010", "100"),
    "tomita_3": ("1001100", "01110"),
    "tomita_4": ("0010010", "1000"),
    "tomita_5": ("0110", "010"),
    "tomita_6": ("00011011", "0011001"),
    "tomita_7": ("001101", "10101"),
    "parity": ("0100", "0110"),
    "even_pairs": ("0110", "0111"),
    "aa_star": ("aaaa", "aaa"),
    "abab_star": ("abababab", "ab"),
    "d_n": ("(())()", "((()))"),
    "first": ("100", "011"),
    "repeat_01": ("0101", "0110"),
    "no_long_run": ("0011", "0111"),
}


def test_a_word_and_another_string_of_each_language() -> None:
    assert set(WORDS) == set(NAMES)
    for name, (word, other) in WORDS.items():
        task = make_task(RegularConfig(language=name))
        reported = [
            task.answers(torch.tensor([[task.vocabulary.index(a) for a in text]]))[0, -1].item()
            for text in (word, other)
        ]
        assert reported == [1, 0], name


@pytest.mark.parametrize("name", NAMES)
def test_machines_are_minimal_and_the_lost_are_lost(name: str) -> None:
    chosen, machine = language(name, 3), make_task(RegularConfig(language=name)).machine()
    assert minimised(machine).states == machine.states
    alive = set(chosen.accepting)  # states from which a word may still come
    for _ in chosen.edges:
        alive |= {q for q, row in enumerate(chosen.edges) if alive & set(row)}
    lost = set(range(len(chosen.edges))) - alive
    assert lost == ({2} if name == "first" else set())  # which begins lost half of the time
    assert all(DEAD <= to < len(chosen.edges) for row in chosen.edges for to in row)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_chances_of_a_states_letters_are_1_together(name: str) -> None:
    task = make_task(RegularConfig(language=name))
    for length in (1, 2, 41):
        assert [sum(row) for row in task.chances(length)] == pytest.approx(
            [1.0] * task.machine().states
        )


@pytest.mark.parametrize("name", NAMES)
def test_neither_answer_is_rare_at_the_end(name: str) -> None:
    """Both answers come at every length: the majority is right in less than 0.99 of 500 symbols."""
    task = make_task(RegularConfig(language=name))
    for length in (40, 500):
        ends = task.sample(STREAM, 0, 2000, length, "cpu").targets[:, -1]
        words = ends.double().mean().item()
        assert 0.02 < words < 0.98, (name, length, words)


def test_strings_stay_alive_with_the_chance_that_is_stated() -> None:
    """1*: every position may spoil it, so (1 - 1/L)^L of the strings are words."""
    task = make_task(RegularConfig(language="tomita_1"))
    for length in (10, 100):
        batch = task.sample(STREAM, 0, 4000, length, "cpu")
        alive = (1 - 1 / length) ** length
        assert batch.targets[:, -1].double().mean().item() == pytest.approx(alive, abs=0.03)
        lost = batch.targets[:, :-1] == 0  # the letter after it says nothing any more
        assert batch.tokens[:, 1:][lost].double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_letters_of_languages_that_nothing_spoils_are_uniform() -> None:
    batch = make_task(RegularConfig(language="tomita_5")).sample(STREAM, 0, 2000, 40, "cpu")
    assert batch.tokens.double().mean().item() == pytest.approx(0.5, abs=0.01)
    assert batch.targets[:, -1].double().mean().item() == pytest.approx(0.5, abs=0.04)


def test_lengths_that_words_cannot_have_are_refused() -> None:
    task = make_task(RegularConfig(language="abab_star"))
    assert [n for n in range(1, 13) if task.valid_length(n)] == [4, 8, 12]
    assert "multiples of 4" in task.length_rule
    assert make_task(RegularConfig()).length_rule == "lengths >= 1"


@pytest.mark.parametrize(
    ("config", "settings", "complaint"),
    [
        (RegularConfig, {"language": "tomita_8"}, r"Did you mean 'tomita_\d'"),
        (RegularConfig, {"n": 3}, "task.n is for d_n and no_long_run, not for tomita_5"),
        (RegularConfig, {"language": "d_n", "n": 0}, "task.n must be at least 1"),
        (DyckConfig, {"kinds": 4, "depth": 7}, "make 21,845 stacks, more than 5,000"),
        (DyckConfig, {"kinds": 50, "depth": 1000}, "more than 10.12 stacks"),
        (FlipFlopConfig, {"ignore": 1.0}, "task.ignore must be in"),
    ],
)
def test_what_is_refused(config: Any, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        config(**settings)


def test_brackets_are_legal_and_uniform_among_those() -> None:
    task = make_task(DyckConfig(kinds=2, depth=3))
    tokens = task.sample(STREAM, 0, 4000, 12, "cpu").tokens.tolist()
    counts: dict[tuple[int, ...], list[int]] = {}
    for string in tokens:
        stack: list[int] = []
        for symbol in string:
            counts.setdefault(tuple(stack), [0] * 4)[symbol] += 1
            if symbol % 2:
                assert stack.pop() == symbol // 2
            else:
                stack.append(symbol // 2)
                assert len(stack) <= 3
    for stack, drawn in counts.items():
        legal = [n for n in drawn if n]
        assert len(legal) == (2 if not stack else 1 if len(stack) == 3 else 3)
        if (total := sum(drawn)) > 1000:
            assert max(abs(n / total - 1 / len(legal)) for n in legal) < 0.05


def test_classes_of_brackets_say_what_may_come_next() -> None:
    task = make_task(DyckConfig(kinds=2, depth=2))
    assert task.vocabulary == ("(", ")", "[", "]")
    assert task.class_names == ("empty", "(", "(|", "[", "[|")
    tokens = [task.vocabulary.index(symbol) for symbol in "([])["]
    assert [task.class_names[c] for c in task.oracle(tokens)] == ["(", "[|", "(", "empty", "["]
    legal: dict[int | None, set[frozenset[int]]] = {}
    for row, answer in zip(task.machine().delta, task.machine().answers, strict=True):
        may = frozenset(symbol for symbol, to in enumerate(row) if to is not None)
        legal.setdefault(answer, set()).add(may)
    assert all(len(sets) == 1 for sets in legal.values())


def test_a_flip_flop() -> None:
    task = make_task(FlipFlopConfig())
    text = "w1i0r0w0i1r1"
    answers = task.oracle([task.vocabulary.index(symbol) for symbol in text])
    asked = {place: answer for place, answer in enumerate(answers) if answer != IGNORE}
    assert asked == {5: 1, 11: 0}


@pytest.mark.parametrize("ignore", [0.8, 0.98, 0.1])
def test_instructions_come_as_often_as_asked(ignore: float) -> None:
    task = make_task(FlipFlopConfig(ignore=ignore))
    batch = task.sample(STREAM, 0, 4000, 40, "cpu")
    instructions, bits = batch.tokens[:, ::2], batch.tokens[:, 1::2] - 3
    assert (instructions[:, 0] == WRITE).all() and (instructions[:, -1] == READ).all()
    inner = instructions[:, 1:-1]
    rates = torch.bincount(inner.flatten(), minlength=3) / inner.numel()
    assert rates.tolist() == pytest.approx([(1 - ignore) / 2, (1 - ignore) / 2, ignore], abs=0.01)
    assert bits.double().mean().item() == pytest.approx(0.5, abs=0.01)
    asked = batch.targets[:, 1::2][instructions == READ]
    assert asked.min() == 0 and asked.double().mean().item() == pytest.approx(0.5, abs=0.02)
    after_read = bits[instructions == READ]
    assert (after_read == asked).double().mean().item() == pytest.approx(0.5, abs=0.03)
