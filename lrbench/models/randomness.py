"""Noise and dropout of one trial, or of a group of trials evaluated together by `torch.func.vmap`.

Each member of a group draws from a generator of its own what it would draw alone: the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function

Draw = Callable[[Tensor, torch.Generator], Tensor]


class Generators:
    """The generators of a group's members, in the place of the one of a single trial."""

    def __init__(self, members: Sequence[torch.Generator]) -> None:
        self.members = list(members)


Source: TypeAlias = torch.Generator | Generators


def drawn(like: Tensor, draw: Draw, source: Source) -> Tensor:
    """Return what `draw` fills a tensor like this one with, for each member of a group its own."""
    if isinstance(source, Generators):
        filled: Tensor = _ForEach.apply(like.detach(), draw, source)
        return filled
    return draw(torch.empty_like(like, memory_format=torch.contiguous_format), source)


def add_noise(values: Tensor, scale: float, source: Source) -> Tensor:
    """Return `values` (B, ...) with Gaussian noise, the second half of it minus the first.

    Each number added is Gaussian and independent of all others of its string, and half of them need
    not be drawn: drawing is a tenth of an update of a small model on CPU. Of a single trial the
    values are changed in place, hidden from autograd: a constant changes no gradient.
    """
    half = (len(values) + 1) // 2
    noise = drawn(
        values[:half],
        lambda out, generator: out.normal_(0, scale, generator=generator),
        source,
    )
    if isinstance(source, Generators):
        return values + torch.cat([noise, -noise[: len(values) - half]])
    with torch.no_grad():
        values[:half].add_(noise)
        values[half:].sub_(noise[: len(values) - half])
    return values


def dropout(x: Tensor, share: float, source: Source | None) -> Tensor:
    """Set a share of x to zero and scale up the rest; x itself outside training.

    The generator is the trial's own, so that a resumed run drops what it would have dropped.
    """
    if source is None or share == 0:
        return x
    kept = drawn(x, lambda out, generator: out.bernoulli_(1 - share, generator=generator), source)
    return x * kept.div(1 - share)


class _ForEach(Function):
    """Draws for the members of a group one after the other; only `vmap` may call it."""

    @staticmethod
    def forward(like: Tensor, draw: Draw, source: Generators) -> Tensor:
        raise RuntimeError("generators of a group are drawn from under vmap only")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], like: Tensor, draw: Draw, source: Generators
    ) -> tuple[Tensor, int]:
        one = like if in_dims[0] is None else like.select(in_dims[0], 0)
        filled = one.new_empty((info.batch_size, *one.shape))
        for member, generator in zip(filled, source.members, strict=True):
            draw(member, generator)
        return filled, 0
