"""The seven relations, by their definition and on every released pair."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic import relation
from lrbench.tasks.logic.formulas import EVERYWHERE, TRUE_IN, parse
from lrbench.tasks.logic.relations import contingent, relations
from lrbench.tasks.logic.text import sizes
from lrbench.tasks.logic.vocabulary import RELATIONS

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
