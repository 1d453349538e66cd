"""Rows added to rows by number: compiled and torch's, rows named more than once included."""

from __future__ import annotations

import pytest
import torch

from lrbench.kernels.choice import SWITCH
from lrbench.kernels.rows import add_rows


@pytest.mark.parametrize("switch", ["0", "1"])
@pytest.mark.parametrize("width", [5, 8, 32])
def test_rows_are_added(width: int, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    target = torch.arange(4.0)[:, None].repeat(1, width)
    source = torch.arange(5.0 * width).view(5, width)
    index = torch.tensor([2, 0, 2, 2, 3])
    add_rows(target, index, source)
    expected = torch.stack(
        [source[1], torch.ones(width), 2 + source[[0, 2, 3]].sum(0), 3 + source[4]]
    )
    assert torch.equal(target, expected)


@pytest.mark.parametrize(("width", "wide"), [(5, []), (24, [8]), (32, [16])])
def test_a_loop_is_used_where_the_width_allows_one(
    width: int, wide: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="needs the extra `fast`")
    from lrbench.kernels import rows as row_sums

    used: list[int] = []
    loop = row_sums.add_rows_loop
    monkeypatch.setattr(
        row_sums, "add_rows_loop", lambda *how: (used.append(how[0]), loop(*how))[1]
    )
    monkeypatch.setenv(SWITCH, "1")
    add_rows(torch.zeros(4, width), torch.tensor([2, 0]), torch.ones(2, width))
    assert used == wide
