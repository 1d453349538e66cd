"""Pieces of a string: read whole again, or carried by a step, they are the string."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.mixers.foreign.reading import ByStep, Whole


class Sums(nn.Module):
    """Running sums, whole by `cumsum`, and a position at a time; what they keep is (B, D)."""

    def forward(self, u: Tensor) -> Tensor:
        return u.cumsum(1)

    def step(self, u: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        return total + u, total + u


BY_STEP = ByStep(lambda layer, empty: empty.sum(1), lambda layer, u, state: layer.step(u, state))


@pytest.mark.parametrize("reading", [Whole(), BY_STEP], ids=["whole", "by step"])
@pytest.mark.parametrize("sizes", [(9,), (1,) * 9, (4, 5), (2, 1, 6)])
def test_pieces_are_the_string(reading: Whole, sizes: tuple[int, ...]) -> None:
    layer, u = Sums(), torch.arange(18.0).view(1, 9, 2).repeat(3, 1, 1)
    for mode in reading.modes:
        state: Any = None
        outputs = []
        for piece in u.split(sizes, 1):
            y, state = reading.read(layer, layer, piece, state, mode)
            outputs.append(y)
        assert torch.equal(torch.cat(outputs, 1), u.cumsum(1))
        kept = u if isinstance(reading, Whole) and not isinstance(reading, ByStep) else u.sum(1)
        assert torch.equal(state, kept)
    empty = reading.start(layer, u[:, :0])
    first, _ = reading.read(layer, layer, u[:, :1], empty, reading.modes[0])
    assert torch.equal(first, u[:, :1])
