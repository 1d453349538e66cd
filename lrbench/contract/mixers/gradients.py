"""Checks of a mixer's gradients: equal in every mode, the derivative, of every parameter."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import (
    ALLOWED,
    by_reference,
    gradients,
    loss,
    reference_name,
    slope_error,
    trainable,
)
from lrbench.contract.subject import (
    Context,
    MixerFactory,
    finest,
    seeded,
    tolerance,
    ways,
    whole,
)
from lrbench.mixers.base import Mixer

LENGTHS = (2, 7, 40)
SHORT = 7
MOVED = 0.1  # deviation of what is added to weights that begin at zero, and so hide others


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
        leaf: _error(lambda: loss(mixer(u)), leaves[leaf], slope, max(sizes[leaf], least))
        for leaf, slope in slopes.items()
    }
    worst = max(errors, key=lambda leaf: math.inf if math.isnan(errors[leaf]) else errors[leaf])
    return Finding(
        name,
        errors[worst] <= ALLOWED,
        f"{len(leaves)} leaves against finite differences: largest error {errors[worst]:.1e}"
        f" at {worst}; allowed {ALLOWED:g}",
    )


def gradients_reach_parameters(make: MixerFactory, context: Context) -> Finding:
    """Check that each parameter gets a gradient that is not zero, in training.

    As it begins, or else near there: a factor of zero stops the gradient of the other factor. A
    mixer names the parameters that are to have none in `without_gradient`.
    """
    name, dtype = "parameters", finest(make)
    mixer = make(dtype=dtype).train()
    wanted = {key: p for key, p in trainable(mixer).items() if key not in mixer.without_gradient}
    if not wanted:
        return not_applicable(name, "it has none to train")
    u = context.inputs(whole(SHORT, mixer), dtype).requires_grad_()
    missed = _missed(mixer, u, wanted)
    if missed:
        with torch.no_grad():
            for seed, parameter in enumerate(wanted.values()):
                drawn = torch.randn(parameter.shape, generator=seeded(seed))
                parameter.add_(MOVED * drawn.to(parameter))
        missed = [key for key in _missed(mixer, u, wanted) if key in missed]
    if missed:
        return Finding(
            name,
            False,
            f"no gradient reaches {', '.join(missed)}: remove what is not used, or name it in"
            " without_gradient",
        )
    excepted = len(mixer.without_gradient)
    told = f"; {excepted} declared to have none" if excepted else ""
    return Finding(name, True, f"a gradient reaches {len(wanted)} of {len(wanted)}{told}")


def _missed(mixer: Mixer, u: Tensor, wanted: dict[str, Tensor]) -> list[str]:
    slopes = gradients(mixer(u), list(wanted.values()))
    return [
        key for key, slope in zip(wanted, slopes, strict=True) if not bool(slope.count_nonzero())
    ]


def _error(value: Callable[[], Tensor], leaf: Tensor, slope: Tensor, size: float) -> float:
    direction = torch.randn(leaf.shape, generator=torch.Generator().manual_seed(1)).to(leaf)
    return slope_error(value, leaf, slope, direction, size)
