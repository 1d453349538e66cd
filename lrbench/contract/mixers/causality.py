"""Checks of causality: an output depends on no later position and on no other string."""

from __future__ import annotations

import torch

from lrbench.contract.finding import Comparison, Finding
from lrbench.contract.subject import SAME, Context, MixerFactory, finest, ways, whole

LENGTH = 13
PUSH = 10.0  # in standard deviations of the inputs


@torch.no_grad()
def is_causal(make: MixerFactory, context: Context) -> Finding:
    """Perturb each position in turn: outputs before it stay as they are, in every mode."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    comparison = Comparison(SAME.get(dtype, 1e-2))
    u = context.inputs(whole(LENGTH, mixer), dtype)
    for mode in ways(mixer):
        expected = mixer(u, None, mode)[0]
        for position in range(1, u.shape[1]):
            pushed = u.clone()
            pushed[:, position] += PUSH
            found = mixer(pushed, None, mode)[0]
            where = f"{mode or 'default mode'}, input {position + 1}"
            comparison.add(where, found[:, :position], expected[:, :position])
    return comparison.finding("causality", "outputs before a perturbed input")


@torch.no_grad()
def keeps_strings_apart(make: MixerFactory, context: Context) -> Finding:
    """Perturb one string of a batch: the outputs and states of the others stay as they are."""
    dtype = finest(make)
    mixer = make(dtype=dtype)
    comparison = Comparison(SAME.get(dtype, 1e-2))
    u = context.inputs(whole(LENGTH, mixer), dtype)
    pushed = u.clone()
    pushed[0] += PUSH
    for mode in ways(mixer):
        expected, found = mixer(u, None, mode)[0][1:], mixer(pushed, None, mode)[0][1:]
        comparison.add(mode or "default mode", found, expected)
    return comparison.finding("strings apart", "outputs beside a perturbed string")
