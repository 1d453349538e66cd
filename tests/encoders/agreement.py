"""That an encoder's fast way computes what its reference does, gradients included."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def assert_same_as_reference(
    encoder: Any, x: Tensor, mask: Tensor, seed: int | None = None, atol: float = 1e-9
) -> None:
    """Compare results and the gradients of x and of all parameters, to 1e-9 relatively.

    seed: of the generator that both ways draw from, each from its beginning; None outside of
    training.
    """
    weight, found = None, []
    for way in (encoder.forward, encoder.reference):
        drawn = () if seed is None else (torch.Generator().manual_seed(seed),)
        y = way(x, mask, *drawn)
        weight = torch.randn_like(y) if weight is None else weight
        found.append([y, *torch.autograd.grad((y * weight).sum(), [x, *encoder.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=atol)
