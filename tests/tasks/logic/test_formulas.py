"""Formulas as sets of worlds, one at a time and all at once, against a truth table."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic import relation
from lrbench.tasks.logic.formulas import (
    EVERYWHERE,
    RELATIONS,
    TRUE_IN,
    VARIABLES,
    VOCABULARY,
    contingent,
    count_operators,
    evaluate,
    parse,
    relations,
)
from lrbench.tasks.logic.released import sizes

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
    tokens = [VOCABULARY.index(word) for words in strings for word in words]
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


@given(st.lists(st.sampled_from(VOCABULARY), max_size=9))
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


EXAMPLES = [
    ("=", "( not ( a ( and b ) ) )", "( ( not a ) ( or ( not b ) ) )"),
    ("<", "( a ( and b ) )", "b"),
    (">", "( a ( or b ) )", "b"),
    ("^", "c", "( not c )"),
    ("|", "( a ( and b ) )", "( not a )"),
    ("v", "( a ( or b ) )", "( not a )"),
    ("#", "a", "b"),
]


@pytest.mark.parametrize(("name", "left", "right"), EXAMPLES)
def test_each_relation(name: str, left: str, right: str) -> None:
    assert relation(left.split(), right.split()) == relation(left, right) == name


def test_arrays_follow_the_definitions() -> None:
    """All pairs of sets made of four parts of the worlds: what a and b say."""
    a, b = TRUE_IN[:2]
    parts = (a & b, a & ~b, ~a & b, ~a & ~b & EVERYWHERE)
    some = [sum(part for bit, part in enumerate(parts) if n >> bit & 1) for n in range(1, 15)]
    sets = np.array([(x, y) for x in some for y in some], np.uint64)
    assert contingent(sets).all() and not contingent(np.array([0, EVERYWHERE], np.uint64)).any()
    found = [RELATIONS[number] for number in relations(sets[:, 0], sets[:, 1])]
    assert set(found) == set("=<>^|v#")
    for (x, y), name in zip(sets.tolist(), found, strict=True):
        left, right = ({w for w in range(64) if one >> w & 1} for one in (x, y))
        apart, all_of_it = not left & right, len(left | right) == 64
        assert name == (
            "=" if left == right
            else "<" if left < right
            else ">" if left > right
            else "^" if apart and all_of_it
            else "|" if apart
            else "v" if all_of_it
            else "#"
        )  # fmt: skip


@pytest.mark.parametrize("text", ["( a ( or ( not a ) ) )", "( a ( and ( not a ) ) )"])
def test_what_says_nothing_has_no_relation(text: str) -> None:
    with pytest.raises(UserError, match=r"left formula is true (everywhere|nowhere)"):
        relation(text, "a")
    with pytest.raises(UserError, match="right formula"):
        relation("a", text)


def test_the_public_function_needs_no_torch() -> None:
    code = (
        "import sys; from lrbench.tasks.logic import relation;"
        "print(relation('a', 'b'), 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "# False\n"


def test_every_released_label_is_right(released: dict[str, Strings]) -> None:
    assert sum(map(len, released.values())) == 172_896  # reading them recomputed each label
    assert all(parse(part.text(0)).operators <= 12 for part in released.values())


def test_released_labels_one_at_a_time(released: dict[str, Strings]) -> None:
    for part in released.values():
        for row in range(0, len(part), 97):
            assert relation(part.text(row, 0), part.text(row, 1)) == RELATIONS[part.labels[row]]


def test_a_released_file_holds_its_size(released: dict[str, Strings]) -> None:
    for name, part in released.items():
        size = int(name.removeprefix("train").removeprefix("test"))
        found = np.minimum(sizes(part), 12)
        assert found.min() == found.max() == size
