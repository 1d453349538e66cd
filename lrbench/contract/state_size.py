"""The state holds as many numbers as the mixer says, however long the string was."""

from __future__ import annotations

from typing import Any

import torch

from lrbench.contract.comparison import tensors_of
from lrbench.contract.finding import Finding, not_applicable
from lrbench.contract.subject import Context, Factory, finest, ways, whole

LENGTHS = (1, 7, 40)
NAME = "state size"


@torch.no_grad()
def state_size_is_constant(make: Factory, context: Context) -> Finding:
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
