"""Trees drawn given their length: against every tree there is, rejection and known numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, chisquare, ks_2samp

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.conditional import draw_given_length, length_tables
from lrbench.tasks.listops.draw import NANGIA, Grammar, bits, labelled, trees
from lrbench.tasks.listops.expressions import depths, levels

from .test_draw import SMALL, shape, shapes

# acceptance probability and mean length of the splits, by an independent programme
EXACT = {
    200: (4.745e-3, 243.5),
    300: (2.126e-3, 343.4),
    400: (9.34e-4, 443.3),
    500: (4.046e-4, 543.2),
    600: (1.736e-4, 643.1),
    700: (7.40e-5, 743.1),
    800: (3.136e-5, 843.0),
    900: (1.323e-5, 943.0),
}


def test_distribution_of_lengths_by_enumeration() -> None:
    tables = length_tables(SMALL, 9)
    known = np.zeros(10)
    for text, p in shapes(SMALL, longest=9):
        known[len(text)] += p
    np.testing.assert_allclose(tables.own[1], known, rtol=1e-12)


@pytest.mark.parametrize("low", EXACT)
def test_acceptance_and_mean_length(low: int) -> None:
    tables = length_tables(NANGIA, 999)
    accepted = range(low + 1, low + 100)
    p, mean = EXACT[low]
    assert tables.probability(accepted) == pytest.approx(p, rel=1e-3)
    weights = tables.own[1][accepted.start : accepted.stop]
    assert np.average(np.array(accepted), weights=weights) == pytest.approx(mean, abs=0.06)


@pytest.mark.parametrize(
    ("grammar", "accepted", "p", "mean", "std"),
    [
        (Grammar(5, 9), range(100, 1001), 0.01067, 134.8, 34.25),
        (Grammar(10, 9), range(100, 1001), 0.1179, 452.2, 241.0),
        (Grammar(15, 9), range(100, 1001), 0.02206, 585.6, 251.9),
        (Grammar(10, 10), range(501, 2000), 0.0828, 1035.0, 394.0),
    ],
    ids=["args_iid", "args_10", "args_15", "lra"],
)
def test_moments_of_the_other_splits(
    grammar: Grammar, accepted: range, p: float, mean: float, std: float
) -> None:
    tables = length_tables(grammar, accepted.stop - 1)
    weights, length = tables.own[1][accepted.start :], np.array(accepted)
    assert tables.probability(accepted) == pytest.approx(p, rel=1e-3)
    assert np.average(length, weights=weights) == pytest.approx(mean, abs=0.1)
    variance = np.average(length**2, weights=weights) - np.average(length, weights=weights) ** 2
    assert np.sqrt(variance) == pytest.approx(std, abs=0.2)


@pytest.mark.parametrize("length", [4, 7, 9])
def test_shapes_of_one_length_have_their_probabilities(length: int) -> None:
    known = {text: p for text, p in shapes(SMALL, longest=9) if len(text) == length}
    range_of_one = range(length, length + 1)
    strings = labelled(*draw_given_length(bits(0, "one", length), 4_000, SMALL, range_of_one))
    counts = Counter(shape(strings.row(row)) for row in range(len(strings)))
    assert set(counts) <= set(known)
    expected = np.array(list(known.values())) / sum(known.values()) * len(strings)
    if len(known) > 1:
        assert chisquare([counts[text] for text in known], expected).pvalue > 0.001


@pytest.fixture(
    scope="module",
    params=[(NANGIA, range(30, 61), 16), (Grammar(10, 9), range(100, 1001), 2)],
    ids=["nangia", "args_10"],
)
def both_ways(request: pytest.FixtureRequest) -> tuple[Strings, Strings]:
    """As many strings of a feasible range by waiting for them and given their lengths."""
    grammar, accepted, blocks = request.param
    source = bits(0, "rejection")
    waited = Strings.join([labelled(*trees(source, grammar, accepted)) for _ in range(blocks)])
    drawn = draw_given_length(bits(0, "conditional"), len(waited), grammar, accepted)
    return waited, labelled(*drawn)


def depth(strings: Strings) -> NDArray[np.int64]:
    deepest: NDArray[np.int64] = np.maximum.reduceat(depths(strings.tokens), strings.offsets[:-1])
    return deepest


def operators(strings: Strings) -> NDArray[np.int64]:
    opens = (strings.tokens >= 10) & (strings.tokens < 14)
    found: NDArray[np.int64] = np.add.reduceat(opens, strings.offsets[:-1], dtype=np.int64)
    return found


def root_arguments(strings: Strings) -> NDArray[np.int64]:
    return list(levels(strings.tokens))[-1].arities


def first_close(strings: Strings) -> NDArray[np.int64]:
    """Where the first bracket closes: how the early arguments share the length."""
    closes = np.flatnonzero(strings.tokens == 14)
    return closes[np.searchsorted(closes, strings.offsets[:-1])] - strings.offsets[:-1]


def longest_argument(strings: Strings) -> NDArray[np.int64]:
    """The longest argument of the root: how they share it."""
    level = list(levels(strings.tokens))[-1]
    ends = np.append(level.arguments[1:], 0)
    last = np.append(level.starts[1:], len(level.arguments)) - 1
    ends[last] = strings.offsets[1:] - 1
    longest: NDArray[np.int64] = np.maximum.reduceat(ends - level.arguments, level.starts)
    return longest


@pytest.mark.slow
@pytest.mark.parametrize(
    "statistic", [Strings.lengths.fget, depth, operators, root_arguments, lambda s: s.labels]
)
def test_like_rejection_in_counts(
    statistic: Callable[[Strings], NDArray[np.int64]], both_ways: tuple[Strings, Strings]
) -> None:
    waited, drawn = (np.asarray(statistic(strings)) for strings in both_ways)
    assert len(waited) > 3_500
    shares = np.linspace(0, 1, 13)[1:-1]
    edges = np.unique(np.quantile(np.concatenate([waited, drawn]), shares))
    places = [np.searchsorted(edges, values, side="right") for values in (waited, drawn)]
    table = np.array([np.bincount(place, minlength=len(edges) + 1) for place in places])
    table = table[:, table.any(axis=0)]
    assert table.shape[1] >= 2
    assert chi2_contingency(table).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("statistic", [first_close, longest_argument, operators])
def test_like_rejection_in_distribution(
    statistic: Callable[[Strings], NDArray[np.int64]], both_ways: tuple[Strings, Strings]
) -> None:
    waited, drawn = (statistic(strings) for strings in both_ways)
    assert ks_2samp(waited, drawn).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "deep", "many"), [(200, 16.9, 53.2), (500, 18.85, 118.5), (900, 19.0, 205.8)]
)
def test_long_strings_are_like_simulated_ones(low: int, deep: float, many: float) -> None:
    accepted = range(low + 1, low + 100)
    strings = labelled(*draw_given_length(bits(0, "long", low), 600, NANGIA, accepted))
    assert strings.lengths.min() >= accepted.start and strings.lengths.max() < accepted.stop
    assert depth(strings).mean() == pytest.approx(deep, abs=0.4 if low == 200 else 0.1)
    assert operators(strings).mean() == pytest.approx(many, abs=1.5)
    assert depth(strings).max() <= 19


def test_shares_of_arguments_do_not_depend_on_their_place() -> None:
    """Exchangeable: the first of the root's arguments is as long as the last, on average."""
    strings = labelled(*draw_given_length(bits(0, "place"), 4_000, NANGIA, range(40, 41)))
    level = list(levels(strings.tokens))[-1]
    two = level.starts[level.arities == 2]
    first = level.arguments[two + 1] - level.arguments[two]
    last = 38 - first
    assert ks_2samp(first, last).pvalue > 0.001


def test_lengths_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="no tree of 2 to 3 tokens"):
        draw_given_length(bits(0), 5, NANGIA, range(2, 4))


def test_a_seed_gives_these_strings() -> None:
    """If this fails, raise VERSION in lrbench/tasks/listops/splits.py: corpora have changed."""
    tokens, offsets = draw_given_length(bits(0, "pinned"), 50, NANGIA, range(301, 400))
    digest = hashlib.sha256(tokens.tobytes() + offsets.tobytes()).hexdigest()
    assert digest[:16] == "26c36d618432496f"
