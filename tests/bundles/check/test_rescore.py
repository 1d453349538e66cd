"""When a bundle's score and the same checkpoint's score on fresh strings are said to differ."""

from __future__ import annotations

import pytest

from lrbench.bundles.check.rescore import ScoreComparison, differing


def compared(recorded: float, now: float, n: int = 1000, **more: str) -> ScoreComparison:
    return ScoreComparison("s0", 500, recorded, n, now, n, None, **more)


def test_one_difference_in_a_hundred_bundles_is_chance() -> None:
    """Fisher's exact test by hand, of 500 and 560 right of 1,000: p = 0.0082."""
    near, same = compared(0.5, 0.56), compared(0.5, 0.5)
    assert near.p == pytest.approx(0.0082, abs=1e-4) and same.p == 1
    assert differing([near]) == [near]
    assert differing([near, same]) == []  # two numbers share the level
    far = compared(0.5, 0.6)
    assert differing([near, far, *[same] * 98]) == [far]
    assert differing([]) == []


def test_a_fixed_split_may_change_by_what_rounding_flips() -> None:
    strings = 2000
    one_more = compared(0.5, 0.5 + 2 / strings, strings, split="args_10")
    assert one_more.place == "on args_10" and differing([one_more]) == []
    assert differing([compared(0.5, 0.6, strings, split="args_10")])
    fewer = ScoreComparison("s0", 500, 0.5, strings, 0.5, strings - 1, None, split="args_10")
    assert differing([fewer]) == [fewer]


def test_an_error_of_a_series_is_the_same_but_for_rounding() -> None:
    assert differing([compared(0.037, 0.037 * (1 + 1e-7), metric="nrmse")]) == []
    assert differing([compared(0.037, 0.038, metric="nrmse")])
