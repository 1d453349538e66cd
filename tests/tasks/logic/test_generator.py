"""The generator: structure, determinism, and trees against text."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lrbench.tasks.logic import generator
from lrbench.tasks.logic.formulas import RELATIONS, count_operators, evaluate, parse, relations
from lrbench.tasks.logic.generator import (
    FormulaPairs,
    draw,
    from_words,
    operators,
    reached,
    to_tokens,
    to_words,
    unique,
    worlds,
)
from lrbench.tasks.logic.released import labelled_right, sizes
from lrbench.tasks.logic.splits import SPLITS, by_size, make_splits, written

FEW = 3000


@pytest.fixture(scope="module")
def few() -> FormulaPairs:
    return draw(0, FEW)[0]


def rows_of(pairs: FormulaPairs) -> list[tuple[int, int]]:
    return list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def test_the_same_seed_draws_the_same_however_it_is_cut(
    few: FormulaPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "BLOCK", 777)
    again, rejected = draw(0, FEW)
    assert rows_of(again) == rows_of(few)
    longer, more = draw(0, FEW + 500)
    assert rows_of(longer)[:FEW] == rows_of(few) and more > rejected
    assert rows_of(draw(1, FEW)[0]) != rows_of(few)


def test_a_corpus_is_the_same_everywhere() -> None:
    """Pinned: whoever changes what a seed draws has to raise the corpus's version."""
    pairs, rejected = draw(0, 4)
    text = written(pairs)
    assert [(text.text(row, 0), text.text(row, 1)) for row in range(4)] == [
        ("( not ( ( d ( and ( a ( or a ) ) ) ) ( and a ) ) )", "a"),
        ("( d ( or b ) )", "f"),
        ("f", "( ( not a ) ( and ( a ( or ( not e ) ) ) ) )"),
        (
            "( not d )",
            "( not ( e ( and ( not ( d ( or ( not ( ( not d ) ( and ( not d ) ) ) ) ) ) ) ) ) )",
        ),
    ]
    assert rejected == 2


def test_what_is_drawn_is_what_was_released_could_be(few: FormulaPairs) -> None:
    text = written(few)
    assert labelled_right(text)
    assert (np.minimum(sizes(text), 12) == few.sizes).all()
    for row in range(0, FEW, 10):
        words = [text.text(row, side).split() for side in (0, 1)]
        used = {word for side in words for word in side if word in "abcdef"}
        assert len(used) <= 4
        for side in words:
            joins = sum(word in ("and", "or") for word in side)
            assert joins <= 7 and binary_depth(side) <= 3
            assert len(side) == 6 * joins + 3 * side.count("not") + 1


def binary_depth(words: list[str]) -> int:
    """How many and, or are above the deepest variable."""
    stack: list[int | str] = []
    for word in words:
        if word == ")":
            inner = [item for item in stack[-3:] if isinstance(item, int)]
            joined = len(inner) == 2
            stack[-3:] = [max(inner) + joined]
        else:
            stack.append(0 if word in "abcdef" else word)
    return int(stack[0])


def test_trees_and_text_say_the_same(few: FormulaPairs) -> None:
    slots = from_words(few.left)
    there = reached(slots)
    assert (to_words(slots, there) == few.left).all()
    tokens, offsets = to_tokens(few.left)
    found, good = evaluate(tokens, offsets)
    assert good.all() and (found == worlds(slots)).all()
    assert (count_operators(tokens, offsets) == operators(slots, there)).all()
    assert parse(written(few).text(7)).worlds == found[7]


def test_labels_are_the_relations(few: FormulaPairs) -> None:
    both = [worlds(from_words(side)) for side in (few.left, few.right)]
    assert (relations(*both) == few.labels).all()


def test_of_equal_pairs_the_first_is_kept() -> None:
    left, right = np.array([5, 7, 5, 5, 7], "u8"), np.array([1, 1, 1, 2, 1], "u8")
    labels, sizes_ = np.arange(5, dtype="u1"), np.zeros(5, "u1")
    once = unique(FormulaPairs(left, right, labels, sizes_))
    assert rows_of(once) == [(5, 1), (7, 1), (5, 2)]
    assert once.labels.tolist() == [0, 1, 3]


def test_files_hold_each_pair_once_and_training_came_first(few: FormulaPairs) -> None:
    files = by_size(few)
    rows = [pair for part in files.values() for pair in rows_of(part)]
    assert sorted(rows) == sorted(set(rows_of(few)))
    first = {pair: place for place, pair in reversed(list(enumerate(rows_of(few))))}
    for size in range(13):
        train, test = rows_of(files[f"train{size}"]), rows_of(files[f"test{size}"])
        assert len(train) == int(0.85 * (len(train) + len(test)))
        order = [first[pair] for pair in train + test]
        assert order == sorted(order)
        assert set(files[f"train{size}"].sizes) | set(files[f"test{size}"].sizes) <= {size}


def test_each_tenth_of_training_is_for_choosing(
    few: FormulaPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lrbench.tasks.logic.splits.draw", lambda seed, tell: (few, 0))
    splits = dict(make_splits(SPLITS, 0, lambda *_: None))
    assert list(splits) == list(SPLITS)
    files = by_size(few)
    names = [f"train{size}" for size in range(7)]
    labels = np.concatenate([files[name].labels for name in names])
    assert splits["dev"].labels.tolist() == labels[9::10].tolist()
    assert splits["train"].labels.tolist() == np.delete(labels, np.s_[9::10]).tolist()
    assert len(splits["test_8"]) == len(files["test8"])
    assert [name for name, _ in make_splits(["dev", "test_9"], 0, lambda *_: None)] == [
        "dev",
        "test_9",
    ]


def test_the_rule_of_one_formula(drawn: tuple[FormulaPairs, int]) -> None:
    """Shares of what stands at the root and below it, by the rule: 4/9 joins, 1/3 negated."""
    slots = from_words(drawn[0].left)
    joins = slots % 8 >= 6
    # rejection takes away more formulas with operators than without
    assert joins[0].mean() == pytest.approx(4 / 9, abs=0.05)
    assert (slots[0] >= 8).mean() == pytest.approx(1 / 3, abs=0.005)
    names = Counter((slots[0][~joins[0]] % 8).tolist())
    assert set(names) == set(range(6))
    assert max(names.values()) / min(names.values()) < 1.05
    either = Counter((slots[0][joins[0]] % 8).tolist())
    assert either[6] / either[7] == pytest.approx(1, abs=0.03)
    assert RELATIONS[np.bincount(drawn[0].labels).argmax()] == "#"
