"""Checks of a mixer's gradients: equal in every mode, and equal to the derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import (
    by_reference,
    gradients,
    loss,
    reference_name,
    slope_error,
    trainable,
)
from lrbench.contract.subject import Context, MixerFactory, finest, tolerance, ways, whole

LENGTHS = (2, 7, 40)
ALLOWED = 1e-4


def gradients_agree(make: MixerFactory, context: Context) -> Finding:
    """Compare d(loss)/d(inputs, parameters) of each mode with those through the step loop."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    comparison = Comparison(tolerance(mixer, dtype))
    for length in sorted({whole(length, mixer) for length in LENGTHS}):
        u = context.inputs(length, dtype).requires_grad_()
        leaves = [u, *trainable(mixer).values()]
        expected = gradients(by_reference(mixer, u), leaves)
        for mode in ways(mixer):
            found = gradients(mixer(u, None, mode), leaves)
            comparison.add(f"{mode or 'default mode'}, T={length}", found, expected)
    return comparison.finding("gradients", f"every mode against {reference_name(mixer)}")


def gradients_are_derivatives(make: MixerFactory, context: Context) -> Finding:
    """Compare the slope along a random direction of each leaf with a finite difference.

    A mixer whose backward is meant to differ (a straight-through estimator, say) declares
    `exact_gradient = False`.
    """
    name, dtype = "derivative", finest(make)
    mixer = make(dtype=dtype)
    if not mixer.exact_gradient:
        return not_applicable(name, "declares exact_gradient = False")
    if dtype != torch.float64:
        return not_applicable(name, "finite differences need float64, which is not declared")
    u = context.inputs(whole(7, mixer), dtype).requires_grad_()
    leaves = {"inputs": u, **trainable(mixer)}
    slopes = dict(zip(leaves, gradients(mixer(u), list(leaves.values())), strict=True))
    sizes = {leaf: float(slope.norm()) for leaf, slope in slopes.items()}
    least = max(1e-2 * max(sizes.values()), 1e-12)
    errors = {
        leaf: _error(lambda: loss(mixer(u)), leaves[leaf], slopes[leaf]) / max(sizes[leaf], least)
        for leaf in leaves
    }
    worst = max(errors, key=lambda leaf: math.inf if math.isnan(errors[leaf]) else errors[leaf])
    return Finding(
        name,
        errors[worst] <= ALLOWED,
        f"{len(leaves)} leaves against finite differences: largest error {errors[worst]:.1e}"
        f" at {worst}; allowed {ALLOWED:g}",
    )


def _error(value: Callable[[], Tensor], leaf: Tensor, slope: Tensor) -> float:
    direction = torch.randn(leaf.shape, generator=torch.Generator().manual_seed(1)).to(leaf)
    return slope_error(value, leaf, slope, direction)
