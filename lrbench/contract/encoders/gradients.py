"""Checks of an encoder's gradients: every trained weight has one, and it is the derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.passes import ALLOWED, loss, slope_error
from lrbench.contract.subject import EncoderFactory, PaddedStrings, finest, seeded, shown
from lrbench.encoders.base import Encoder


def gradients_reach_everything(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Check that each parameter and each valid position gets a gradient, finite, in training."""
    name = "gradients"
    for dtype in make(dtype=torch.float32).dtypes:
        encoder = make(dtype=dtype)
        x, mask = strings.inputs(dtype).requires_grad_(), strings.mask()
        leaves = _leaves(encoder, x)
        moved = {
            name: leaf for name, leaf in leaves.items() if name not in encoder.without_gradient
        }
        slopes = _slopes(encoder, x, mask, moved)
        for leaf, slope in slopes.items():
            if slope is None or not bool(slope.count_nonzero()):
                return Finding(name, False, f"none reaches {leaf}")
            if not bool(torch.isfinite(slope).all()):
                return Finding(name, False, f"that of {leaf} is not finite in {shown(dtype)}")
        reached = slopes["the input"]
        assert reached is not None
        if not torch.equal(reached.abs().sum(2) > 0, mask):
            return Finding(name, False, "the input's is not that of the valid positions alone")
    return Finding(name, True, f"reach {len(slopes) - 1} parameters and every valid position")


def gradients_are_derivatives(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Compare slopes along random directions with finite differences, with dropout and without."""
    name, dtype = "derivative", finest(make)
    encoder = make(dtype=dtype)
    if not encoder.exact_gradient:
        return not_applicable(name, "declares exact_gradient = False")
    if dtype != torch.float64:
        return not_applicable(name, "finite differences need float64, which is not declared")
    worst, where = 0.0, ""
    for training in (False, True):
        for leaf, error in _errors(encoder, strings, training).items():
            if not error <= worst:
                worst = math.inf if math.isnan(error) else error
                where = f"{leaf}, {'training' if training else 'evaluation'}"
    return Finding(
        name,
        worst <= ALLOWED,
        f"against finite differences: largest error {worst:.1e} at {where}; allowed {ALLOWED:g}",
    )


def _errors(encoder: Encoder, strings: PaddedStrings, training: bool) -> dict[str, float]:
    """Return the relative error of each leaf's slope."""
    x, mask = strings.inputs(torch.float64).requires_grad_(), strings.mask()

    def value() -> Tensor:
        return loss(encoder(x, mask, seeded() if training else None))

    leaves = _leaves(encoder, x)
    slopes = torch.autograd.grad(value(), list(leaves.values()), allow_unused=True)
    found = {leaf: slope for leaf, slope in zip(leaves, slopes, strict=True) if slope is not None}
    sizes = {leaf: float(slope.norm()) for leaf, slope in found.items()}
    least = max(1e-2 * max(sizes.values()), 1e-12)
    return {
        leaf: _error(value, leaves[leaf], slope, max(sizes[leaf], least))
        for leaf, slope in found.items()
    }


def _error(value: Callable[[], Tensor], leaf: Tensor, slope: Tensor, size: float) -> float:
    direction = torch.randn(leaf.shape, generator=seeded(1), dtype=leaf.dtype)
    return slope_error(value, leaf, slope, direction, size)


def _leaves(encoder: Encoder, x: Tensor) -> dict[str, Tensor]:
    """Return the inputs and the trained parameters, by name."""
    trained = {name: p for name, p in encoder.named_parameters() if p.requires_grad}
    return {"the input": x, **trained}


def _slopes(
    encoder: Encoder, x: Tensor, mask: Tensor, leaves: dict[str, Tensor]
) -> dict[str, Tensor | None]:
    found = torch.autograd.grad(
        loss(encoder(x, mask, seeded())), list(leaves.values()), allow_unused=True
    )
    return dict(zip(leaves, found, strict=True))
