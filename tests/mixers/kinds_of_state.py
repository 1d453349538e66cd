"""A tanh network and a count of positions, whose carried state is of any kind that mixers have."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lrbench.mixers.base import Mixer
from lrbench.models.bare import Bare, BareConfig

KINDS = ("tuple", "named", "dict")


class Named(NamedTuple):
    """Two halves of a state."""

    one: Tensor
    two: Tensor


class Halves(Mixer):
    """h' = tanh(W u + U h), its two halves kept apart; with `counts`, the second one counts."""

    def __init__(self, kind: str, width: int, counts: bool = False) -> None:
        super().__init__(None, width)
        self.kind, self.counts = kind, counts
        self.cell = nn.RNNCell(width, width)

    @property
    def state_size(self) -> int:
        return self.width + self.counts

    def initial_state(self, batch: int) -> Any:
        h = self.cell.weight_hh.new_zeros(batch, self.width)
        return self._packed(h, torch.zeros(batch, 1, dtype=torch.int64))

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        state = self.initial_state(len(u)) if state is None else state
        one, two = state.values() if isinstance(state, dict) else state
        h, count, outputs = (one, two, []) if self.counts else (torch.cat([one, two], 1), None, [])
        for x in u.unbind(1):
            h, count = self.cell(x, h), None if count is None else count + 1
            outputs.append(h)
        return torch.stack(outputs, 1), self._packed(h, count)

    def _packed(self, h: Tensor, count: Tensor | None) -> Any:
        one, two = (h, count) if self.counts else h.chunk(2, 1)
        assert two is not None
        if self.kind == "dict":
            return {"one": one, "two": two}
        return Named(one, two) if self.kind == "named" else (one, two)


def stack(kind: str, counts: bool = False, layers: int = 1) -> Bare:
    """Return a stack over three symbols; the weights are those of each other kind."""
    torch.manual_seed(0)
    make = lambda width: Halves(kind, width, counts)  # noqa: E731
    return Bare(BareConfig(), 3, 3, 6, layers, make).eval()
