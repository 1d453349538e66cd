"""The evaluators against the slow truth, and what is no expression."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.tasks.corpus import strings as strings_module
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops import evaluate
from lrbench.tasks.listops.expressions import OPERATORS, VOCABULARY, encode, evaluate_all

from .oracle import value

digits = st.sampled_from("0123456789").map(lambda digit: [digit])
expressions = st.recursive(
    digits,
    lambda inner: st.builds(
        lambda name, arguments: [f"[{name}", *(t for a in arguments for t in a), "]"],
        st.sampled_from(OPERATORS),
        st.lists(inner, min_size=1, max_size=6),
    ),
    max_leaves=30,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("7", 7),
        ("[MAX 5 [SM 3 9 ] 2 ]", 5),
        ("[MED 3 4 ]", 3),
        ("[MED 9 0 8 ]", 8),
        ("[MED 1 2 8 9 ]", 5),
        ("[MED 0 9 9 9 0 8 ]", 8),
        ("[SM 9 9 9 9 9 ]", 5),
        ("[MIN [MAX 3 2 ] [SM 5 6 ] [MED 4 4 ] ]", 1),
    ],
)
def test_examples(text: str, answer: int) -> None:
    assert evaluate(text.split()) == value(text.split()) == answer


@pytest.mark.slow
@given(st.lists(expressions, min_size=1, max_size=8), st.integers(1, 60))
def test_one_and_many_agree_with_the_slow_truth(many: list[list[str]], piece: int) -> None:
    answers = [value(tokens) for tokens in many]
    assert [evaluate(tokens) for tokens in many] == answers
    offsets = np.cumsum([0, *map(len, many)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings_module, "PIECE", piece)
        ids = np.concatenate([encode(tokens) for tokens in many])
        assert evaluate_all(ids, offsets).tolist() == answers


@pytest.mark.slow
def test_deep_nesting() -> None:
    depth = 70_000  # deeper than the 16 bits that order shallower ones
    tokens = ["[SM", "1"] * depth + ["3"] + ["]"] * depth
    assert evaluate(tokens) == (depth + 3) % 10


def test_every_released_line(released: Strings) -> None:
    assert len(released) == 10_000
    wrong = [
        row
        for row, label in enumerate(released.labels.tolist())
        if value(released.text(row).split()) != label
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cut short"),
        ("[MAX", "1 operator is not closed"),
        ("[MAX 1 2", "1 operator is not closed"),
        ("[MAX 1 [SM 2 ]", "1 operator is not closed"),
        ("]", "token 1 is ']' without an operator"),
        ("1 2", "ends at token 1, but 1 follow"),
        ("[MAX 1 ] ]", "ends at token 3, but 1 follow"),
        ("[MAX ]", r"token 2 is '\]' right after \[MAX"),
        ("[MAX 1 [SM ] ]", r"token 4 is '\]' right after \[SM"),
        ("[MAX 1 [MUL 2 ] ]", r"token 3 is '\[MUL'; ListOps has 0 1"),
        ("[MAX 12 ]", "token 2 is '12'"),
        ("( [MAX 1 ]", r"token 1 is '\('"),
        pytest.param("x" * 50, f"token 1 is '{'x' * 40}'; ListOps has", id="long"),
    ],
)
def test_what_is_no_expression_is_reported(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        evaluate(text.split())


@given(st.lists(st.sampled_from(VOCABULARY), max_size=8))
def test_any_tokens_have_a_value_or_an_error(tokens: list[str]) -> None:
    try:
        answer = evaluate(tokens)
    except UserError:
        with pytest.raises((AssertionError, StopIteration, ValueError, RuntimeError)):
            value(tokens)
    else:
        assert answer == value(tokens)
