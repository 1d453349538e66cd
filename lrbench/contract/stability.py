"""Ordinary inputs give finite numbers; how far the state grows is told, not judged."""

from __future__ import annotations

import math

import torch

from lrbench.contract.comparison import largest, tensors_of
from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, Factory, shown, whole

LENGTH = 40
STEPS, PIECE = 1000, 100


def is_finite(make: Factory, context: Context) -> Finding:
    """Check outputs, states and gradients on standard normal inputs, in every declared dtype."""
    name = "finite"
    dtypes = make(dtype=torch.float32).dtypes
    for dtype in dtypes:
        mixer = make(dtype=dtype)
        u = context.inputs(whole(LENGTH, mixer), dtype).requires_grad_()
        leaves = {"inputs": u, **trainable(mixer)}
        y, state = mixer(u)
        slopes = gradients((y, state), list(leaves.values()))
        named = {"the output": [y], "the state": tensors_of(state)}
        named |= {f"the gradient of {k}": [g] for k, g in zip(leaves, slopes, strict=True)}
        for what, tensors in named.items():
            if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
                return Finding(
                    name, False, f"{what} is not finite in {shown(dtype)}, T={u.shape[1]}"
                )
    return Finding(name, True, f"outputs and gradients in {', '.join(map(shown, dtypes))}")


@torch.no_grad()
def state_growth(make: Factory, context: Context) -> Finding:
    """Report the largest number of the state along 1,000 random positions in the first dtype."""
    dtype = make(dtype=torch.float32).dtypes[0]
    mixer = make(dtype=dtype)
    if mixer.state_size is None:
        return not_applicable("growth", "its state keeps every position it has read")
    piece = whole(PIECE, mixer)
    state, sizes = mixer.initial_state(context.batch), {}
    for first in range(0, STEPS, piece):
        _, state = mixer(context.inputs(piece, dtype, seed=first), state)
        sizes[first + piece] = max(map(largest, tensors_of(state)), default=0.0)
    bad = next((step for step, size in sizes.items() if math.isinf(size)), None)
    if bad is not None:
        return Finding("growth", False, f"the state is not finite {bad:,} positions in")
    told = ", ".join(f"{sizes[step]:.2g} after {step:,}" for step in (min(sizes), max(sizes)))
    return Finding("growth", True, f"largest number of the state {told} random inputs")
