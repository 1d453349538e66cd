"""What one gets without following the nesting."""

from __future__ import annotations

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.baselines import baselines, roots, split_baselines
from lrbench.tasks.listops.draw import labelled
from lrbench.tasks.listops.expressions import MAX, MIN, SM, encode


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
    }
    assert baselines(fitted, fitted)["root_digits"] == 1.0


def test_figures_of_the_released_test_file(nangia: dict[str, Strings], released: Strings) -> None:
    found = baselines(nangia["train"], released)
    assert found["majority"] == pytest.approx(0.11, abs=0.005)
    assert found["root_operator"] == pytest.approx(0.24, abs=0.01)
    assert found["root_digits"] == pytest.approx(0.53, abs=0.01)
    generated = baselines(nangia["train"], nangia["near_iid"])
    for name, value in found.items():
        assert generated[name] == pytest.approx(value, abs=0.02)


def test_data_that_were_not_made_are_reported() -> None:
    with pytest.raises(UserError, match="lrbench data make listops"):
        split_baselines("near_iid")
