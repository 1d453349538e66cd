"""Outputs have the shape and dtype of the inputs, for every dtype a mixer declares."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lrbench.contract.finding import Finding
from lrbench.contract.passes import steps_are_possible
from lrbench.contract.subject import Context, Factory, shown, whole
from lrbench.mixers.base import Mixer

NAME = "shape, dtype"


def keeps_shape_and_dtype(make: Factory, context: Context) -> Finding:
    """Check that (B, T, D) goes to (B, T, D), or `out_width` for D, and a step (B, D) likewise."""
    dtypes = make(dtype=torch.float32).dtypes
    for dtype in dtypes:
        mixer = make(dtype=dtype)
        for given, y in _outputs(mixer, context, dtype):
            if (y.shape, y.dtype) != ((*given.shape[:-1], mixer.out_width), dtype):
                return Finding(NAME, False, f"{_kind(given)} becomes {_kind(y)}")
    return Finding(NAME, True, f"(B, T, D) to (B, T, D) in {', '.join(map(shown, dtypes))}")


@torch.no_grad()
def _outputs(mixer: Mixer, context: Context, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    for length in (whole(1, mixer), whole(7, mixer)):
        u = context.inputs(length, dtype)
        for strings in (u, u[:1]):
            yield strings, mixer(strings)[0]
    if steps_are_possible(mixer):
        position = context.inputs(1, dtype)[:, 0]
        yield position, mixer.step(position, mixer.initial_state(context.batch))[0]


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {shown(tensor.dtype)}"
