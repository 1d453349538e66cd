"""Formulas as sets of worlds, one at a time and all at once, against a truth table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.tasks.logic.formulas import EVERYWHERE, TRUE_IN, count_operators, evaluate, parse
from lrbench.tasks.logic.vocabulary import VARIABLES, WORDS

Tree = Any  # "a", ("not", tree), ("and", tree, tree)
TREES = st.recursive(
    st.sampled_from(VARIABLES),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=12,
)


def written(tree: Tree) -> list[str]:
    match tree:
        case ("not", x):
            return ["(", "not", *written(x), ")"]
        case (operator, x, y):
            return ["(", *written(x), "(", operator, *written(y), ")", ")"]
    return [tree]


def holds(tree: Tree, world: dict[str, bool]) -> bool:
    match tree:
        case ("not", x):
            return not holds(x, world)
        case ("and", x, y):
            return holds(x, world) and holds(y, world)
        case ("or", x, y):
            return holds(x, world) or holds(y, world)
    return world[tree]


def truth_table(tree: Tree) -> int:
    """The worlds where a tree holds, world w giving variable v the bit v of w."""
    table = 0
    for number in range(64):
        world = {name: bool(number >> bit & 1) for bit, name in enumerate(VARIABLES)}
        table |= holds(tree, world) << number
    return table


def tokens_of(strings: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    tokens = [WORDS.index(word) for words in strings for word in words]
    offsets = np.cumsum([0, *map(len, strings)])
    return np.array(tokens, np.uint8), offsets


def test_variables_are_independent_and_true_half_the_time() -> None:
    assert len(set(TRUE_IN)) == 6
    assert [worlds.bit_count() for worlds in TRUE_IN] == [32] * 6
    everything = EVERYWHERE
    for worlds in TRUE_IN:
        everything &= worlds
    assert everything.bit_count() == 1


@given(st.lists(TREES, min_size=1, max_size=8))
def test_worlds_are_those_of_the_truth_table(trees: list[Tree]) -> None:
    strings = [written(tree) for tree in trees]
    tables = [truth_table(tree) for tree in trees]
    assert [parse(words).worlds for words in strings] == tables
    worlds, good = evaluate(*tokens_of(strings))
    assert worlds.tolist() == tables and good.all()
    counts = [sum(word in ("and", "or", "not") for word in words) for words in strings]
    assert count_operators(*tokens_of(strings)).tolist() == counts
    assert [parse(" ".join(words)).operators for words in strings] == counts


WRONG = [
    "",
    "a b",
    "( a )",
    "( not a",
    "not a",
    "a )",
    ")",
    "( )",
    "( and a )",
    "( a ( and b )",
    "( a ( not b ) )",
    "( a ( and b ) ) )",
    "( not ( and a ) )",
    "( a and b )",
    "( ( and a ) ( or b ) )",
    "( not not a )",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_formula_is_refused_by_both(text: str) -> None:
    with pytest.raises(UserError, match="formula"):
        parse(text)
    # between formulas that are in order, which would complete it if it could borrow from them
    around = [["a"], text.split(), ["a"], ["(", "not", "b", ")"]]
    assert evaluate(*tokens_of(around))[1].tolist() == [True, False, True, True]


@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_both_agree_on_what_a_formula_is(words: list[str]) -> None:
    try:
        worlds = parse(words).worlds
    except UserError:
        assert not evaluate(*tokens_of([words]))[1][0]
    else:
        assert [array[0] for array in evaluate(*tokens_of([words]))] == [worlds, True]


def test_a_wrong_word_is_named_with_its_place() -> None:
    with pytest.raises(UserError, match=r"word 3 of a formula, 'g', is not one of: \( \) a b"):
        parse("( not g )")
    with pytest.raises(UserError, match="word 4 of a formula, '\\)', closes neither"):
        parse("( a b )")


def test_deep_formulas_need_no_recursion() -> None:
    deep = ["(", "not"] * 3000 + ["a"] + [")"] * 3000
    assert parse(deep).worlds == TRUE_IN[0]
