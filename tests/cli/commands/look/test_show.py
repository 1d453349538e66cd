"""`lrbench show`: strings with the answers below them, and mistakes told in a few lines."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lrbench.cli.commands.look.show import aligned
from lrbench.registry import TASKS, Entry
from lrbench.tasks.symbols.cyclic import Sum, SumConfig

Run = Callable[..., Any]


def rows(out: str, label: str) -> list[list[str]]:
    return [line.split()[1:] for line in out.splitlines() if line.startswith(label)]


def test_sum_as_a_person_writes_it(lrbench: Run) -> None:
    ended = lrbench("show", "task=sum", "length=12", "count=2", "task.modulus=3", "seed=4")
    assert (ended.code, ended.err) == (0, "")
    head = ended.out.splitlines()
    assert head[0] == "sum: running sum mod M (Fan, Chi & Rudnicky 2024)"
    assert head[3] == "task=sum task.modulus=3 length=12 count=2 seed=4"
    strings, answers = rows(ended.out, "string"), rows(ended.out, "answer")
    assert [len(row) for row in strings + answers] == [12] * 4
    for string, answer in zip(strings, answers, strict=True):
        total = 0
        for symbol, shown in zip(string, answer, strict=True):
            total = (total + int(symbol)) % 3
            assert shown == str(total)


def test_answers_stand_below_the_numbers_they_belong_to(lrbench: Run) -> None:
    out = lrbench("show", "task=mod_arith", "length=9", "count=1", "task.modulus=11").out
    string, answer = out.splitlines()[-2:]
    ends = [match.end() for match in re.finditer(r"\S+", string)][1:]
    assert [match.end() for match in re.finditer(r"\S+", answer)][1:] == ends[::2]
    symbols = string.replace("×", "*").split()[1:]
    for end, shown in zip(range(1, 10, 2), answer.split()[1:], strict=True):
        assert eval("".join(symbols[:end])) % 11 == int(shown)


def test_long_answers_are_broken_between_columns(lrbench: Run) -> None:
    ended = lrbench("show", "task=even_pair", "length=30", "count=1")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines[3:]).split()
    assert words.count("same") + words.count("differs") == 30
    assert list(aligned(["1", "2", "3"], ["a", "", "ccc"], 15)) == [
        "string    1   2",
        "answer    a",
        "",
        "          3",
        "        ccc",
    ]


def test_the_same_words_show_the_same_strings_and_another_seed_others(lrbench: Run) -> None:
    first, again, other = (lrbench("show", f"seed={seed}").out for seed in (1, 1, 2))
    assert first == again
    assert rows(first, "string") != rows(other, "string")


def test_permutations_are_written_as_cycles(lrbench: Run) -> None:
    out = lrbench("show", "task=group", "task.group=S3", "length=12", "count=1").out
    elements = {"e", "(01)", "(02)", "(12)", "(012)", "(021)"}
    assert set(rows(out, "string")[0]) <= elements
    assert set(rows(out, "answer")[0]) <= elements


def test_a_default_length_that_the_task_has(lrbench: Run) -> None:
    assert "length=11 " in lrbench("show", "task=mod_arith").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("task=summ", "Did you mean 'sum'?\n`lrbench tasks` lists all "),
        ("lenght=3", "Did you mean 'length'?\nthere are: task, length, count, seed, task.modulus"),
        ("task.modulos=3", "Did you mean 'task.modulus'?"),
        ("task.modulus=abc", "task.modulus cannot be 'abc'\nit must be a whole number"),
        ("task.modulus=2.5", "it must be a whole number"),
        ("task.modulus=[1", "task.modulus cannot be '[1'"),
        ("task.modulus=1", "task.modulus must be an integer >= 2, not 1"),
        ("task=parity task.modulus=3", "use task=sum for other moduli"),
        ("task=mod_arith length=12", "use 11, the nearest below"),
        ("length=0", "length must be from 1 to 1000, not 0"),
        ("length=100000", "length must be from 1 to 1000, not 100000"),
        ("length=${oc.env:NOT_THERE}", "NOT_THERE"),
        ("length=???", "length"),
        ("count=0", "count must be from 1 to 100, not 0"),
        ("seed=-1", "seed must be from 0"),
        ("sum", "write KEY=VALUE"),
    ],
)
def test_mistakes(lrbench: Run, words: str, message: str) -> None:
    ended = lrbench("show", *words.split())
    assert (ended.code, ended.out) == (1, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) <= 6 and "Traceback" not in ended.err


def test_a_rule_is_of_a_runs_checkpoint(lrbench: Run) -> None:
    ended = lrbench("show", "task=sum", "--which", "last")
    assert (ended.code, ended.out) == (2, "")
    assert "--which goes with --tree RUN" in ended.err


def test_a_task_that_contradicts_itself(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class WrongConfig(SumConfig):
        name: str = "wrong"

    class Wrong(Sum):
        def oracle(self, tokens: Any) -> list[int]:
            return [0 for _ in tokens]

    entries = {**TASKS._entries, "wrong": Entry("wrong", Wrong, WrongConfig, "a mistake")}
    monkeypatch.setattr(TASKS, "_entries", entries)
    ended = lrbench("show", "task=wrong", "length=3")
    assert (ended.code, ended.out) == (1, "")
    assert "task wrong contradicts itself on " in ended.err
    assert "its oracle says [0, 0, 0]" in ended.err and "train nothing on it" in ended.err


def test_an_output_without_the_multiplication_sign(
    lrbench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert lrbench("show", "task=mod_arith", "length=41", "count=1").code == 0


def test_a_number_too_long_to_read(lrbench: Any) -> None:
    ended = lrbench("show", "task=sum", "length=" + "9" * 5000)
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert len(ended.err) < 300


def test_answers_that_are_not_scored_stand_in_brackets(lrbench: Run) -> None:
    out = lrbench("show", "task=nnch_stack_manipulation", "length=4", "count=20").out
    assert rows(out, "string")[0][4:] == ["?"] * 5
    for answers in rows(out, "answer"):
        end = answers.index("end")
        assert answers[end + 1 :] == ["(0)"] * (4 - end)
        assert set(answers[:end]) <= {"0", "1"}
    assert any("(0)" in answers for answers in rows(out, "answer"))


def test_a_length_that_a_task_does_not_have_names_one_that_it_has(lrbench: Run) -> None:
    ended = lrbench("show", "task=nnch_modular_arithmetic", "length=12")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].strip() == "use 11, the nearest below"
