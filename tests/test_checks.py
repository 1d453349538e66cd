"""Checks of values, and how they are told."""

from __future__ import annotations

import pytest

from lrbench.checks import (
    at_least,
    between,
    from_a_user,
    inside,
    limits,
    nearest,
    of_kind,
    one_of,
    only_with,
    radii,
    shown,
)


def test_what_is_not_set_yet_passes() -> None:
    for check in (lambda v: at_least("k", v, 1), lambda v: between("k", v, 1, 2)):
        check(None)
        check("???")
    one_of("k", "???", ["a"])


def test_numbers_at_the_edge() -> None:
    between("k", 1, 1, 2)
    between("k", 2, 1, 2)
    at_least("k", 0.0, 0)
    for wrong in (0, 3, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="k must be at"):
            between("k", wrong, 1, 2)


@pytest.mark.parametrize(
    ("value", "hint", "kind"),
    [
        (True, int, "a whole number"),
        (2.0, int, "a whole number"),
        (1, bool, "true or false"),
        ("1", float, "a number"),
        (True, float, "a number"),
        (3, str, "a word"),
        ("x", int | None, "a whole number or null"),
        ([1, True], list[int], "a list of whole numbers, such as"),
        (1, list[int], "a list of whole numbers, such as"),
    ],
)
def test_values_of_another_kind(value: object, hint: object, kind: str) -> None:
    with pytest.raises(ValueError, match=f"^k must be {kind}.*, not "):
        of_kind("k", value, hint)


def test_values_of_their_kind_pass() -> None:
    for value, hint in ((1, int), (1, float), (None, int | None), ([], list[str]), ({}, dict)):
        of_kind("k", value, hint)


def test_ends_that_are_excluded() -> None:
    with limits() as found:
        inside("k", 0.5, 0, 1)
        radii(0.0, 1.0)
    assert found["k"].text() == "above 0, below 1"
    assert found["model.mixer.r_max"].text() == "above 0, at most 1"
    for wrong in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="k must lie between 0 and 1"):
            inside("k", wrong, 0, 1)
    with pytest.raises(ValueError, match=r"above r_min = 0\.5 and at most 1, not 0\.5"):
        radii(0.5, 0.5)


def test_the_nearest_word() -> None:
    assert nearest("moduls", ["modulus", "name"]) == " Did you mean 'modulus'?"
    assert nearest("SEED", ["seed"]) == " Did you mean 'seed'?"
    assert nearest("x" * 10_000, ["seed"]) == ""


def test_values_are_shown_on_one_short_line() -> None:
    assert shown("größe") == "größe"
    assert shown("a\nb\x1b[1m\ud800") == r"a\nb\x1b[1m\ud800"
    long = shown("x" * 10_000)
    assert len(long) < 80 and "..." in long


@pytest.mark.parametrize(
    ("value", "default", "typed"), [(0.5, 1.0, "0.5"), (False, True, "false"), ("a", None, "a")]
)
def test_what_nothing_reads_is_refused_unless_it_is_the_default(
    value: object, default: object, typed: str
) -> None:
    only_with("k", value, default, False, "other=1")  # in a run of another version
    words = f"^k={typed} is for other=1; leave it out$"
    with from_a_user():
        only_with("k", value, default, True, "other=1")
        only_with("k", default, default, False, "other=1")
        with pytest.raises(ValueError, match=words):
            only_with("k", value, default, False, "other=1")
