"""The delta rule in compiled loops against torch's chunks, and against the loop over updates."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lrbench.scan.matrix import by_values
from lrbench.scan.matrix.householder import HouseholderProducts, delta_rule
from tests.both_ways import both_ways, close, draw, group_is_each_alone, needs_numba

pytestmark = needs_numba
SIZES = [  # strings, positions, updates of each, keys, values, decays
    (3, 1, 1, 1, 8, 0),
    (1, 7, 3, 5, 40, 1),  # two blocks of 16 values, one of 8
    (2, 40, 2, 16, 8, 0),
    (2, 9, 1, 4, 7, 4),
    (1, 1, 4, 3, 5, 3),
]


def leaves(sizes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return k, e, v, q, S_0, and the decays before their exponential."""
    strings, length, count, keys, values, rates = sizes
    k, e = (normalize(draw(strings, length, count, keys, seed=s), dim=-1) for s in (1, 2))
    made = [k, 1.5 * e, draw(strings, length, count, values, seed=3)]
    made += [draw(strings, length, keys, seed=4), draw(strings, values, keys, seed=5)]
    made += [draw(strings, length, rates, seed=6)] if rates else []
    return [one.to(dtype) for one in made]


def run(*made: Tensor, mode: str = "chunked") -> Tensor:
    """Return y and the last state, flat."""
    k, e, v, q, start, *rate = made
    log_decay = -rate[0].square() if rate else None
    y, state = delta_rule(HouseholderProducts(k, e, log_decay), v, q, start, mode)
    return torch.cat([y.flatten(), state.flatten()])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kept", [1, 1 << 13, 1 << 18])
def test_values_and_gradients(
    sizes: tuple[int, ...], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever part of a string the backward goes over at a time."""
    monkeypatch.setattr(by_values, "KEPT", kept)
    made = leaves(sizes)
    ours, theirs = both_ways(run, made)
    close(ours, theirs)
    slow, _ = both_ways(lambda *parts: run(*parts, mode="sequential"), made)
    close(ours, slow)


def test_single_precision() -> None:
    ours, theirs = both_ways(run, leaves(SIZES[2], torch.float32))
    close(ours, theirs)


def test_what_is_not_contiguous_is_read_as_it_is() -> None:
    made = leaves((4, 6, 2, 5, 8, 5))
    ours, theirs = both_ways(lambda *parts: run(*(p[1::2] for p in parts)), made)
    close(ours, theirs)


def test_a_group_of_runs_at_once() -> None:
    """Under vmap(grad(..)), as groups train."""
    group_is_each_alone(run, leaves(SIZES[1]))
