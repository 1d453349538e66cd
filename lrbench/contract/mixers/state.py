"""Checks of states: finite, and of the declared size; their growth has a bound."""

from __future__ import annotations

import math
from typing import Any

import torch

from lrbench.contract.finding import Finding, largest, not_applicable, tensors_of
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, MixerFactory, finest, shown, ways, whole
from lrbench.mixers.base import Mixer

LENGTH = 40
STEPS, PIECE = 1000, 100
EARLY = 10  # positions whose outputs later ones are compared with
WHOLE = 480  # positions of a string that is read at once
MOST = 1e6  # times those: float32 has seven digits, and a norm takes squares
LENGTHS = (1, 7, 40)
NAME = "state size"


def is_finite(make: MixerFactory, context: Context) -> Finding:
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
def state_growth(make: MixerFactory, context: Context) -> Finding:
    """Report the largest state along 1,000 random positions in the first dtype, and judge outputs.

    They may grow to a million times the first ones. A mixer whose outputs may grow beyond declares
    the reason, `unbounded`. Where the state keeps every position, one string is read as a whole.
    """
    dtype = make(dtype=torch.float32).dtypes[0]
    mixer = make(dtype=dtype)
    if mixer.state_size is None:
        y = mixer(context.inputs(whole(WHOLE, mixer), dtype))[0]
        told = f"its state keeps every position; largest output {largest(y[:, :EARLY]):.2g}"
        told += f" within {EARLY}, {largest(y):.2g} within {y.shape[1]} random inputs"
        return _judged(mixer, largest(y[:, :EARLY]), largest(y), y.shape[1], told)
    piece, early, late = whole(PIECE, mixer), 0.0, 0.0
    state, sizes = mixer.initial_state(context.batch), {}
    for first in range(0, STEPS, piece):
        y, state = mixer(context.inputs(piece, dtype, seed=first), state)
        sizes[first + piece] = max(map(largest, tensors_of(state)), default=0.0)
        early, late = early or largest(y[:, :EARLY]), max(late, largest(y))
    bad = next((step for step, size in sizes.items() if math.isinf(size)), None)
    if bad is not None:
        return Finding("growth", False, f"the state is not finite {bad:,} positions in")
    sizes_at = ", ".join(f"{sizes[step]:.2g} after {step:,}" for step in (min(sizes), max(sizes)))
    told = f"largest number of the state {sizes_at} random inputs"
    return _judged(mixer, early, late, max(sizes), told)


def _judged(mixer: Mixer, early: float, late: float, length: int, told: str) -> Finding:
    """Return the finding on the largest outputs of the first positions and of all."""
    if mixer.unbounded and math.isfinite(late):
        return Finding("growth", True, f"{told}; may grow: {mixer.unbounded}")
    if late <= MOST * max(early, 1.0):
        return Finding("growth", True, told)
    return Finding(
        "growth",
        False,
        f"outputs reach {late:.1e} within {length:,} random inputs, {early:.1e} within {EARLY};"
        f" allowed {MOST:g} times as much, or a reason in `unbounded`",
    )


@torch.no_grad()
def state_size_is_constant(make: MixerFactory, context: Context) -> Finding:
    """Count the real numbers per string at the start and after several lengths, in every mode."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    declared = mixer.state_size
    if declared is None:
        return not_applicable(NAME, "declares None: it keeps every position it has read")
    states = {"at the start": mixer.initial_state(context.batch)}
    for length in sorted({whole(length, mixer) for length in LENGTHS}):
        for mode in ways(mixer):
            state = mixer(context.inputs(length, dtype), None, mode)[1]
            states[f"after {length} inputs ({mode or 'default mode'})"] = state
    for when, state in states.items():
        complaint = _complaint(state, context.batch, declared)
        if complaint:
            return Finding(NAME, False, f"{when} {complaint}")
    return Finding(NAME, True, f"{declared} real numbers per string at every length")


def _complaint(state: Any, batch: int, declared: int) -> str:
    tensors = tensors_of(state)
    for tensor in tensors:
        if tensor.dim() == 0 or len(tensor) != batch:
            return f"a state tensor is {tuple(tensor.shape)}: the batch of {batch} must come first"
    held = sum(t.numel() * (2 if t.is_complex() else 1) for t in tensors) // batch
    return "" if held == declared else f"the state holds {held} numbers; state_size says {declared}"
