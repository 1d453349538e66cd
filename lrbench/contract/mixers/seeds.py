"""Checks of seeds: a seed determines a mixer, and its state_dict is all of it."""

from __future__ import annotations

import torch

from lrbench.contract.finding import Comparison, Finding, alike, tensors_of
from lrbench.contract.subject import Context, MixerFactory, finest, whole

LENGTH = 7


@torch.no_grad()
def seed_determines(make: MixerFactory, context: Context) -> Finding:
    """Build and run (in training mode) a mixer twice from one seed: every bit is the same."""
    name, dtype = "determinism", finest(make)
    first, second = make(seed=3, dtype=dtype), make(seed=3, dtype=dtype)
    mine, theirs = first.state_dict(), second.state_dict()
    unequal = [key for key in mine if not torch.equal(mine[key], theirs[key])]
    if unequal:
        return Finding(name, False, f"{unequal[0]} differs between two mixers of one seed")
    outputs = []
    for mixer in (first, second):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            outputs.append(mixer.train()(context.inputs(whole(LENGTH, mixer), dtype)))
    pairs = zip(tensors_of(outputs[0]), tensors_of(outputs[1]), strict=True)
    if not all(alike(a, b) for a, b in pairs):
        return Finding(name, False, "outputs differ between two mixers of one seed")
    return Finding(name, True, f"{len(mine)} tensors and the outputs equal, bit for bit")


@torch.no_grad()
def state_dict_is_whole(make: MixerFactory, context: Context) -> Finding:
    """Load one mixer's state_dict into another, used before: outputs are the first one's.

    What is neither a parameter nor a buffer is lost by checkpoints and does not move to a device.
    """
    dtype = finest(make)
    saved, restored = make(seed=3, dtype=dtype), make(seed=5, dtype=dtype)
    u = context.inputs(whole(LENGTH, saved), dtype)
    expected = saved(u)
    restored(context.inputs(whole(LENGTH, saved), dtype, seed=1))
    restored.load_state_dict(saved.state_dict())
    comparison = Comparison(0.0)
    comparison.add(f"T={u.shape[1]}", restored(u), expected)
    return comparison.finding("checkpoint", "outputs after load_state_dict into another seed")
