"""`lrbench bench fixed_point`: counts are those of solvers, figure and file are made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lrbench.bench.fixed_point import (
    MODELS,
    SPECIFIED,
    check_figure,
    draw_figure,
    iteration_counts,
    layer_costs,
    network,
)
from lrbench.errors import UserError
from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES


def test_networks_have_the_radius_and_scale() -> None:
    recurrence, drive = network(0.05, 0.9, 0, 500)
    assert float(torch.linalg.eigvals(recurrence.matrix).abs().max()) == pytest.approx(0.9)
    assert float(drive.std()) == pytest.approx(0.05, rel=0.1)


def test_counts_costs_and_figure(tmp_path: Path) -> None:
    counts = iteration_counts(1, length=20)
    assert len(counts) == len(SPECIFIED) * len(SURROGATES)
    assert all(0 < one.iterations[0] <= 20 and one.converged == [True] for one in counts)
    easy = {one.surrogate: one.median for one in counts if (one.scale, one.radius) == (0.05, 0.5)}
    assert easy["newton"] <= easy["taylor"] <= easy["jacobi"]
    costs = layer_costs([3], 8, 2, 3, 0.0, torch.device("cpu"))
    assert [cost.model for cost in costs] == list(MODELS)
    assert all((cost.iterations is not None) == ("solve" in cost.model) for cost in costs)
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "figure.svg"
    draw_figure(counts, costs, path)
    assert path.read_bytes().startswith(b"<?xml")


def test_a_figure_of_another_kind_is_refused() -> None:
    with pytest.raises(UserError, match=r"must end in \.svg or \.pdf"):
        check_figure(Path("x.png"))
