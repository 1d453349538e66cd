"""Readers of strings in pieces for foreign layers: the whole string each time, or the layer's step.

Any module can read the whole string again: its inputs so far are kept. Some libraries offer a step
that carries a cache. The numbers of that cache are put side by side here, a string a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Outputs = Callable[[Tensor], Tensor]
Zero = Callable[[Any, Tensor], Any]  # (layer, inputs (B, 0, D)) -> the state of empty strings
Step = Callable[[Any, Tensor, Any], tuple[Tensor, Any]]  # (layer, u (B, D), state)


class Whole:
    """Keeps all inputs, (B, n, D), and reads them again with each piece."""

    modes: tuple[str, ...] = ("whole",)

    def start(self, layer: Any, empty: Tensor) -> Any:
        """Return what is kept of strings without a symbol; `empty` is their inputs (B, 0, D)."""
        return empty

    def read(
        self, layer: Any, outputs: Outputs, u: Tensor, state: Any, mode: str
    ) -> tuple[Tensor, Any]:
        """Map u (B, T, D) after `state` to y (B, T, D) and what is kept then."""
        seen = u if state is None else torch.cat([state, u], 1)
        return outputs(seen)[:, seen.shape[1] - u.shape[1] :], seen


class ByStep(Whole):
    """Carries the cache of a library's step; mode `whole` has outputs of whole strings beside it.

    The two are different code of the library, so that comparing them says something. xlstm writes
    into the cache of its convolution, and is given a copy.
    """

    modes = ("sequential", "whole")

    def __init__(self, zero: Zero, step: Step) -> None:
        self.zero, self.step = zero, step

    def start(self, layer: Any, empty: Tensor) -> Any:
        return self.zero(layer, empty)

    def read(
        self, layer: Any, outputs: Outputs, u: Tensor, state: Any, mode: str
    ) -> tuple[Tensor, Any]:
        begins = state is None
        if begins:
            state = self.start(layer, u[:, :0])
        stepped = []
        for position in u.unbind(1):
            y, state = self.step(layer, position, state)
            stepped.append(y)
        return outputs(u) if begins and mode == "whole" else torch.stack(stepped, 1), state


def _mambapy_zero(layer: Any, empty: Tensor) -> tuple[Tensor, Tensor]:
    config, batch = layer.config, len(empty)
    h = empty.new_zeros(batch, config.d_inner, config.d_state)
    return h, empty.new_zeros(batch, config.d_inner, config.d_conv - 1)


def _mambapy_step(layer: Any, u: Tensor, state: Any) -> tuple[Tensor, Any]:
    y, state = layer.step(u, state)
    return y, state


def _mlstm_zero(layer: Any, empty: Tensor) -> tuple[Tensor, ...]:
    config, batch = layer.config, len(empty)
    inner, heads = config._inner_embedding_dim, config.num_heads
    size = inner // heads
    shapes = (
        (heads, size, size),
        (heads, size, 1),
        (heads, 1, 1),
        (config.conv1d_kernel_size, inner),
    )
    return tuple(empty.new_zeros(batch, *shape) for shape in shapes)


def _mlstm_step(layer: Any, u: Tensor, state: Any) -> tuple[Tensor, Any]:
    *cell, before = state
    y, after = layer.step(u[:, None], mlstm_state=tuple(cell), conv_state=(before.clone(),))
    return y[:, 0], (*after["mlstm_state"], *after["conv_state"])


def _slstm_zero(layer: Any, empty: Tensor) -> tuple[Tensor, Tensor]:
    size, batch, width = layer.config.conv1d_kernel_size, len(empty), empty.shape[2]
    return empty.new_zeros(batch, 4, width), empty.new_zeros(batch, size, width)


def _slstm_step(layer: Any, u: Tensor, state: Any) -> tuple[Tensor, Any]:
    cell, before = state
    parts = cell.transpose(0, 1).contiguous()  # it has the batch second
    y, after = layer.step(u[:, None], conv_state=(before.clone(),), slstm_state=parts)
    return y[:, 0], (after["slstm_state"].transpose(0, 1), *after["conv_state"])


STEPPED = {
    "mambapy.mamba.MambaBlock": ByStep(_mambapy_zero, _mambapy_step),
    "xlstm.blocks.mlstm.layer.mLSTMLayer": ByStep(_mlstm_zero, _mlstm_step),
    "xlstm.blocks.slstm.layer.sLSTMLayer": ByStep(_slstm_zero, _slstm_step),
}


def reading_of(target: str) -> Whole:
    """Return how the layer of a dotted path reads pieces."""
    return STEPPED.get(target, Whole())
