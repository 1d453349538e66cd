"""Checks of randomness: an encoder's weights by the seed, dropout by the run's generator."""

from __future__ import annotations

import torch

from lrbench.contract.finding import Comparison, Finding
from lrbench.contract.subject import EncoderFactory, PaddedStrings, finest, seeded


@torch.no_grad()
def seed_determines(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Build an encoder twice from one seed, and run one twice: every bit is the same."""
    name, dtype = "determinism", finest(make)
    first, second = make(seed=3, dtype=dtype), make(seed=3, dtype=dtype)
    mine, theirs = first.state_dict(), second.state_dict()
    unequal = [key for key in mine if not torch.equal(mine[key], theirs[key])]
    if unequal:
        return Finding(name, False, f"{unequal[0]} differs between two encoders of one seed")
    x, mask = strings.inputs(dtype), strings.mask()
    results = [encoder(x, mask) for encoder in (first, second, first)]
    if not all(torch.equal(results[0], other) for other in results[1:]):
        return Finding(name, False, "evaluated twice, results differ")
    return Finding(name, True, f"{len(mine)} tensors and the results equal, bit for bit")


@torch.no_grad()
def draws_from_the_generator(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Train twice from one state of the generator: every bit the same, and no other source used."""
    name, dtype = "randomness", finest(make)
    encoder = make(dtype=dtype)
    kept = {key: tensor.clone() for key, tensor in encoder.state_dict().items()}
    x, mask = strings.inputs(dtype), strings.mask()
    elsewhere = torch.get_rng_state()
    results, states = [], []
    for seed in (7, 7, 8):
        encoder.load_state_dict(kept)
        generator = seeded(seed)
        results.append(encoder(x, mask, generator))
        states.append(generator.get_state())
    encoder(x, mask)
    if not torch.equal(torch.get_rng_state(), elsewhere):
        return Finding(name, False, "draws from torch's global generator, which no run checkpoints")
    if not torch.equal(results[0], results[1]):
        return Finding(name, False, "trained twice from one state of the generator, results differ")
    if torch.equal(states[0], seeded(7).get_state()):
        same = torch.equal(results[0], results[2])
        return Finding(name, same, "draws nothing" if same else "random, but not by the generator")
    if torch.equal(results[0], results[2]):
        return Finding(name, False, "draws from the generator, and nothing comes of it")
    return Finding(name, True, "drawn from the generator alone, in training only")


@torch.no_grad()
def state_dict_is_whole(make: EncoderFactory, strings: PaddedStrings) -> Finding:
    """Load one encoder's state_dict into another, trained before: results are the first one's."""
    dtype = finest(make)
    saved, restored = make(seed=3, dtype=dtype), make(seed=5, dtype=dtype)
    x, mask = strings.inputs(dtype), strings.mask()
    saved(x, mask, seeded())
    expected = saved(x, mask)
    restored(strings.inputs(dtype, seed=1), mask, seeded())
    restored.load_state_dict(saved.state_dict())
    comparison = Comparison(0.0)
    comparison.add("a batch", restored(x, mask), expected)
    return comparison.finding("checkpoint", "results after load_state_dict into another seed")
