"""Check of twins: a library's layer and our model with its weights agree, gradients included."""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.contract.finding import Comparison, Finding, not_applicable
from lrbench.contract.passes import gradients, trainable
from lrbench.contract.subject import Context, MixerFactory
from lrbench.mixers.foreign.foreign import ForeignMixer
from lrbench.mixers.foreign.twins import twin_of

NAME = "twin"
LENGTHS = (1, 63, 64, 65, 129, 500)  # kernels change at 64
ALLOWED = 2e-3


def equals_twin(make: MixerFactory, context: Context) -> Finding:
    """Compare outputs, and the gradients of the inputs and of all of their weights, in float32.

    Weights are drawn near those that the layer begins with, so that none stays at zero.
    """
    mixer = make(dtype=torch.float32)
    assert isinstance(mixer, ForeignMixer)
    twin = twin_of(mixer)
    if isinstance(twin, str):
        return not_applicable(NAME, twin)
    twin.mixer.to(context.device)
    comparison = Comparison(ALLOWED)
    with torch.no_grad():
        for seed, one in enumerate(trainable(mixer).values()):
            drawn = torch.randn(one.shape, generator=torch.Generator().manual_seed(seed))
            one.add_(0.1 * drawn.to(one))
    prefix = "layer."
    theirs = {name.removeprefix(prefix): one for name, one in trainable(mixer).items()}
    for length in LENGTHS:
        u = context.inputs(length, torch.float32).requires_grad_()
        leaves: list[Tensor] = [u, *theirs.values()]
        expected, found = mixer.outputs(u), twin.outputs(theirs, u)
        comparison.add(f"T={length}", found, expected)
        slopes = gradients(found, leaves), gradients(expected, leaves)
        comparison.add(f"T={length}, gradients", *slopes)
    return comparison.finding(NAME, f"{type(twin.mixer).__name__} with its weights")
