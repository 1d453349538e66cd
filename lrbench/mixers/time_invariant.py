"""Mixers whose transition never changes and that start from zero: linear time-invariant systems.

They need no states where a first layer reads few symbols: the responses to each symbol alone, now
and later, determine everything (`scan/time_invariant/responses.py`). Everywhere else they are
scanned.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lrbench.mixers.base import LinearMixer
from lrbench.mixers.complex_linear import as_complex, as_rows
from lrbench.scan import scan
from lrbench.scan.time_invariant.responses import superpose, superpose_last

LARGEST_KERNEL = 400  # S T: beyond, states are cheaper


class TimeInvariantMixer(LinearMixer):
    """A linear mixer with constant transition, x_0 = 0, and a readout without a constant term."""

    default_mode: ClassVar[str] = "auto"

    def forward(
        self,
        u: Tensor,
        state: Tensor | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        automatic = (mode or self.default_mode) == "auto"
        if index is None or state is not None or not automatic:
            return super().forward(u, state, mode, index)
        if len(u) * index.shape[1] > LARGEST_KERNEL:
            return super().forward(u, state, mode, index)
        return self.by_responses(u, index)

    def by_responses(self, table: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Map symbols `index` (B, T) of a table (S, D) to (y, state), from x_0 = 0."""
        later = index.shape[1] - 1
        transition, inputs = self.coefficients(table[:, None])
        states = scan(
            transition, _then_nothing(inputs, later), self.initial_state(len(table)), "auto"
        )
        signal = _then_nothing(table[:, None], later) if self.readout_needs_input else None
        y = superpose(self.readout(states, signal), index)
        rows = as_rows(states) if states.is_complex() else states.flatten(2)
        last = superpose_last(rows, index)
        if states.is_complex():
            return y, as_complex(last)
        return y, last.view(len(index), *states.shape[2:])


def _then_nothing(first: Tensor, count: int) -> Tensor:
    """Return (S, 1, ...) followed by `count` positions of zeros."""
    return torch.cat([first, torch.zeros_like(first).expand(-1, count, *first.shape[2:])], 1)
