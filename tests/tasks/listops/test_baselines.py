"""What one gets without following the nesting."""

from __future__ import annotations

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.baselines import baselines, roots, ruled, split_baselines
from lrbench.tasks.listops.draw import labelled
from lrbench.tasks.listops.expressions import MAX, MIN, OPERATORS, SM, encode, evaluate


def expressions(*texts: str) -> Strings:
    ids = [encode(text.split()) for text in texts]
    return labelled(np.concatenate(ids), np.cumsum([0, *map(len, ids)]))


def test_what_the_root_shows() -> None:
    strings = expressions("[MAX 5 [SM 3 9 ] 2 5 ]", "7", "[MIN [MAX 1 2 ] [SM 1 1 ] ]", "[SM 3 2 ]")
    assert list(roots(strings)) == [
        (MAX, bytes([2, 5, 5]), True),
        (7, b"", False),
        (MIN, b"", True),
        (SM, bytes([2, 3]), False),
    ]


def test_lookups_by_hand() -> None:
    fitted = expressions("[MAX 1 2 ]", "[MAX 2 1 ]", "[MAX 9 9 ]", "[MIN 3 4 ]", "[MIN 3 3 ]")
    tested = expressions("[MAX 2 1 ]", "[MAX 5 2 ]", "[MIN 3 5 ]", "[SM 1 2 ]", "[SM 1 1 ]")
    assert baselines(fitted, tested) == {
        "uniform": 0.1,
        "majority": 0.4,  # 2, the smaller of the two commonest
        "root_operator": 0.6,  # 2 after MAX, 3 after MIN, else the majority
        "root_digits": 0.6,
        "root_summary": 0.6,  # "[MIN 3 5 ]" is a MIN whose least is 3; "[MAX 5 2 ]" was never seen
        "root_rule": 1.0,  # nothing is nested
    }
    assert baselines(fitted, fitted)["root_digits"] == 1.0


def test_the_rule_applied_to_direct_digits_is_the_value_where_nothing_is_nested() -> None:
    """Of a flat string `evaluate` says what it is; of nested ones the digits beside them count."""
    flat = [f"[{name} {digits} ]" for name in OPERATORS for digits in ("7", "9 1 4", "8 0 3 2")]
    for text in [*flat, "6"]:
        (root,) = roots(expressions(text))
        assert ruled(root) == evaluate(text.split()), text
    nested = expressions("[MAX 5 [SM 3 9 ] 2 ]", "[SM [MIN 1 1 ] 9 3 ]", "[MED [MAX 4 9 ] ]")
    assert [ruled(root) for root in roots(nested)] == [5, 2, None]


def test_a_summary_is_looked_up_where_the_digits_themselves_were_never_seen() -> None:
    """In training a nested MAX of least 5 is 7: eight digits that were not there are looked up."""
    fitted = expressions("[MAX 5 [SM 3 4 ] ]", "[MAX 5 4 [SM 3 4 ] ]", "[MAX 1 1 ]", "[MAX 1 ]")
    tested = expressions("[MAX 5 5 4 4 3 3 2 2 [SM 3 4 ] ]")
    found = baselines(fitted, tested)
    assert (found["root_summary"], found["root_digits"], found["root_rule"]) == (1.0, 0.0, 0.0)


@pytest.mark.slow
def test_figures_of_the_released_test_file(nangia: dict[str, Strings], released: Strings) -> None:
    found = baselines(nangia["train"], released)
    assert found["majority"] == pytest.approx(0.11, abs=0.005)
    assert found["root_operator"] == pytest.approx(0.24, abs=0.01)
    assert found["root_digits"] == pytest.approx(0.53, abs=0.01)
    assert found["root_summary"] == pytest.approx(0.552, abs=0.005)
    assert found["root_rule"] == pytest.approx(0.550, abs=0.005)
    generated = baselines(nangia["train"], nangia["near_iid"])
    for name, value in found.items():
        assert generated[name] == pytest.approx(value, abs=0.02)


def test_data_that_were_not_made_are_reported() -> None:
    with pytest.raises(UserError, match="lrbench data make listops"):
        split_baselines("near_iid")
