"""Scans are measured on what they are said to be, and the table that is written is read back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lrbench.bench.scans import CANDIDATES, STRUCTURES, cases, drawn, scan_costs, write_table
from lrbench.errors import UserError
from lrbench.scan import ALGORITHMS
from lrbench.scan.algorithms import fastest
from lrbench.scan.algorithms.fastest import Size, size_of

CPU = torch.device("cpu")


@pytest.mark.parametrize(("structure", "block"), STRUCTURES)
def test_a_case_is_what_it_says(structure: str, block: int) -> None:
    for case in cases([structure], [2], [3], width=64):
        size = size_of(*drawn(case, CPU))
        assert (size.structure, size.block, size.length) == (structure, case.block, 3)
        assert size.indexed == int(case.indexed)
        assert size.numbers == 2 * 64 * (2 if structure.endswith("complex") else 1)


def test_every_algorithm_is_measured_in_turn() -> None:
    costs = scan_costs(cases(["diagonal"], [2], [3]), 3, 0.0, CPU)
    assert [cost.algorithm for cost in costs] == [*CANDIDATES, *CANDIDATES]
    assert set(CANDIDATES) <= set(ALGORITHMS)
    for first in (0, len(CANDIDATES)):
        ratios = [cost.times_fastest for cost in costs[first : first + len(CANDIDATES)]]
        assert ratios.count(1.0) >= 1
        assert all(cost.seconds > 0 for cost in costs)


def test_what_is_too_large_is_left_out() -> None:
    assert cases(["blocks"], [100_000], [100_000]) == []
    with pytest.raises(UserError, match="structure 'diagonale' unknown"):
        cases(["diagonale"], [1], [1])


def test_a_table_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = scan_costs(cases(["constant_blocks"], [2], [3]), 3, 0.0, CPU)
    write_table(costs, tmp_path / "new" / "fastest.csv")
    monkeypatch.setattr(fastest, "TABLE", tmp_path / "new" / "fastest.csv")
    fastest._table.cache_clear()
    fastest._nearest.cache_clear()
    try:
        for cost in costs:
            if cost.times_fastest == 1.0:
                assert fastest.fastest(cost.size) == cost.algorithm
    finally:
        monkeypatch.undo()
        fastest._table.cache_clear()
        fastest._nearest.cache_clear()
    with pytest.raises(UserError, match="--output"):
        write_table(costs, Path("/proc/no/such/folder.csv"))


def test_a_size_goes_by_its_nearest_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        (Size("cpu", "diagonal", 1, 0, 40, 64), "tree"),
        (Size("cpu", "diagonal", 1, 0, 40, 8192), "sequential"),
        (Size("cpu", "blocks", 8, 0, 40, 8192), "chunked"),
        (Size("cpu", "blocks", 2, 0, 40, 8192), "tree"),
    )
    monkeypatch.setattr(fastest, "_table", lambda: table)
    chosen = fastest._nearest.__wrapped__
    assert chosen(Size("cpu", "diagonal", 1, 0, 60, 100)) == "tree"
    assert chosen(Size("cpu", "diagonal", 1, 0, 500, 6000)) == "sequential"
    assert chosen(Size("cpu", "blocks", 16, 0, 5, 64)) == "chunked"
    assert chosen(Size("cpu", "blocks", 3, 0, 4000, 64)) == "tree"
    assert chosen(Size("cpu", "diagonal", 1, 1, 40, 64)) is None
    assert chosen(Size("cuda", "diagonal", 1, 0, 40, 64)) is None
