"""Drawn trees are those of the grammar: against every tree there is, and against known numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops import draw
from lrbench.tasks.listops.draw import (
    NANGIA,
    Grammar,
    bits,
    grow,
    keep,
    labelled,
    lengths,
    serialise,
    trees,
    unique,
)
from lrbench.tasks.listops.expressions import VOCABULARY
from lrbench.tasks.listops.splits import LRA_SPLITS, NANGIA_SPLITS

from .oracle import nesting, value

SMALL = Grammar(max_arguments=3, max_depth=3)


def shapes(grammar: Grammar, longest: int, depth: int = 1) -> Iterator[tuple[str, float]]:
    """Yield each tree of at most `longest` tokens, d for any digit and [ for any operator."""
    deepest = depth == grammar.max_depth
    yield "d", 1.0 if deepest else 0.75
    if deepest:
        return
    arities = range(2, grammar.max_arguments + 1)
    inner = list(shapes(grammar, longest - 3, depth + 1))
    for arity in arities:
        for children in product(inner, repeat=arity):
            text = "[" + "".join(child for child, _ in children) + "]"
            if len(text) <= longest:
                p = float(np.prod([p for _, p in children]))
                yield text, 0.25 * p / len(arities)


def shape(tokens: np.ndarray) -> str:
    return "".join("d" if t < 10 else "]" if t == 14 else "[" for t in tokens.tolist())


def test_shapes_have_their_probabilities() -> None:
    source = bits(0, "shapes")
    strings = Strings.join([labelled(*trees(source, SMALL)) for _ in range(6)])
    known = dict(shapes(SMALL, longest=14))
    counts = Counter(shape(strings.row(row)) for row in range(len(strings)))
    n = len(strings)
    expected = {text: n * p for text, p in known.items() if n * p > 5}
    rest = n - sum(expected.values())
    observed = [counts[text] for text in expected]
    tested = chisquare([*observed, n - sum(observed)], [*expected.values(), rest])
    assert len(expected) > 20
    assert tested.pvalue > 0.001


def test_strings_are_right() -> None:
    strings = labelled(*trees(bits(1, "right"), Grammar(4, 5)))
    for row in range(3_000):
        tokens = strings.text(row).split()
        assert value(tokens) == strings.labels[row]
        assert nesting(tokens) <= 4


def test_symbols_are_uniform_and_independent_of_place() -> None:
    strings = labelled(*trees(bits(2, "symbols"), NANGIA))
    counts = np.bincount(strings.tokens, minlength=15)
    assert chisquare(counts[:10]).pvalue > 0.001
    assert chisquare(counts[10:14]).pvalue > 0.001
    # the bits of one word choose an operator and its number of arguments, a digit or an operator
    opens = np.flatnonzero((strings.tokens[:-2] >= 10) & (strings.tokens[:-2] < 14))
    first = strings.tokens[opens + 1]
    table = np.zeros((4, 10))
    np.add.at(table, (strings.tokens[opens[first < 10]] - 10, first[first < 10]), 1)
    assert chisquare(table.ravel()).pvalue > 0.001


def test_lengths_are_known_before_there_are_strings() -> None:
    forest = grow(bits(3, "lengths"), 4_000, NANGIA)
    known = lengths(forest)
    whole = Strings(*serialise(forest), np.zeros(4_000, np.uint8), VOCABULARY, ())
    assert known.tolist() == whole.lengths.tolist()
    kept = (known >= 5) & (known < 30)
    some = Strings(*serialise(keep(forest, kept)), np.zeros(kept.sum(), np.uint8), VOCABULARY, ())
    wanted = whole.take(kept)
    assert np.array_equal(some.tokens, wanted.tokens)
    assert np.array_equal(some.offsets, wanted.offsets)
    none = serialise(keep(forest, known < 0))
    assert [len(array) for array in none] == [0, 1]


def test_different_ones_in_the_order_of_their_first_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "BLOCK", 100)
    source, seen = bits(4, "unique"), []
    for _ in range(20):
        block = labelled(*trees(source, NANGIA))
        seen += [block.text(row) for row in range(len(block))]
    wanted = list(dict.fromkeys(seen))[:120]
    reported: list[int] = []
    again = bits(4, "unique")
    strings = unique(lambda: trees(again, NANGIA), 120, reported.append)
    assert [strings.text(row) for row in range(len(strings))] == wanted
    assert reported == sorted(reported) and reported[-1] == 120


def digest(strings: Strings) -> str:
    return hashlib.sha256(strings.tokens.tobytes() + strings.offsets.tobytes()).hexdigest()[:16]


def test_a_seed_gives_these_strings() -> None:
    """If this fails, raise VERSION in lrbench/tasks/listops/splits.py: corpora have changed."""
    family = replace(NANGIA_SPLITS, size=2_000)
    first, other = family.draw(0, lambda done: None), family.draw(1, lambda done: None)
    assert digest(first) == "4380e0207fabb452"
    assert digest(first) != digest(other)
    assert digest(replace(LRA_SPLITS, size=50).draw(0, lambda done: None)) == "826eabd5b8dae15b"
