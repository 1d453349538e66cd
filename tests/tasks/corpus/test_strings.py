"""Strings in flat arrays are what plain lists of lists would be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.tasks.corpus import strings as module
from lrbench.tasks.corpus.strings import Strings

from .conftest import ROWS, strings

some_rows = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=2, max_size=12)


def as_lists(given: Strings) -> list[list[int]]:
    sides = range(given.sides)
    return [given.row(i, side).tolist() for i in range(len(given)) for side in sides]


def test_rows_and_lengths(single: Strings, pairs: Strings) -> None:
    assert as_lists(single) == as_lists(pairs) == ROWS
    assert (len(single), len(pairs)) == (6, 3)
    assert single.lengths.tolist() == [3, 1, 4, 2, 1, 5]
    assert pairs.lengths.tolist() == [[3, 1], [4, 2], [1, 5]]
    assert pairs.text(1, 1) == "b b"
    with pytest.raises(IndexError):
        pairs.row(3)
    with pytest.raises(IndexError):
        single.row(0, side=1)


@given(some_rows, st.data())
def test_padded_take_and_part(rows: list[list[int]], data: st.DataObject) -> None:
    sides = data.draw(st.sampled_from([1, 2] if len(rows) % 2 == 0 else [1]))
    given = strings(rows, sides)
    n = len(given)
    chosen = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n))
    side = data.draw(st.integers(0, sides - 1))
    wanted = [rows[sides * i + side] for i in chosen]

    tokens, lengths = given.padded(chosen, side, padding=7)
    assert lengths.tolist() == [len(row) for row in wanted]
    assert tokens.dtype == np.int64 and tokens.shape == (len(wanted), max(map(len, wanted)))
    assert tokens.tolist() == [row + [7] * (tokens.shape[1] - len(row)) for row in wanted]

    taken = given.take(chosen)
    assert taken.labels.tolist() == [i % 3 for i in chosen]
    assert as_lists(taken) == [rows[sides * i + s] for i in chosen for s in range(sides)]

    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start, n))
    part = given.part(start, stop)
    assert as_lists(part) == rows[sides * start : sides * stop]
    assert part.labels.tolist() == given.labels[start:stop].tolist()
    if n > 1:
        joined = Strings.join([given.part(0, 1), given.part(1, n)])
        assert as_lists(joined) == rows and joined.labels.tolist() == given.labels.tolist()


def test_take_by_booleans(pairs: Strings) -> None:
    assert as_lists(pairs.take(pairs.lengths[:, 1] > 1)) == ROWS[2:]


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_pieces_are_all_rows_in_order(
    sides: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", size)
    pieces = list(strings(ROWS, sides).pieces())
    assert [row for piece in pieces for row in as_lists(piece)] == ROWS
    assert all(len(piece) for piece in pieces)
    assert len(pieces) == {1: 6, 100: 1}.get(size, len(pieces)) or sides == 2


def test_arrays_that_do_not_fit_are_refused(single: Strings) -> None:
    with pytest.raises(ValueError, match="offsets"):
        Strings(single.tokens, single.offsets[:-1], single.labels, ("a",), ("b",))
    with pytest.raises(ValueError, match="tokens there are"):
        Strings(single.tokens[:-1], single.offsets, single.labels, ("a",), ("b",))
    with pytest.raises(ValueError, match="joined"):
        Strings.join([single, strings(ROWS, sides=2)])
