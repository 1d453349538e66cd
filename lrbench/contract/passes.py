"""Ways to run a model: position by position, with the gradients of a fixed loss, their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.finding import tensors_of
from lrbench.mixers.base import Mixer

# Two sizes of step: a kink (of a ReLU, of a clipped norm) may lie within one of them.
STEPS = (1e-6, 1e-7)
ALLOWED = 1e-4  # of finite differences


def step_loop(mixer: Mixer, u: Tensor) -> tuple[Tensor, Any]:
    """Return y (B, T, D) and the last state for u (B, T, D), one `step` at a time."""
    state, outputs = mixer.initial_state(len(u)), []
    for position in range(u.shape[1]):
        y, state = mixer.step(u[:, position], state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def steps_are_possible(mixer: Mixer) -> bool:
    """Whether the mixer takes one position: any length will do, or it has a step of its own."""
    return mixer.length_multiple == 1 or type(mixer).step is not Mixer.step


def by_reference(mixer: Mixer, u: Tensor) -> tuple[Tensor, Any]:
    """Return what every mode is compared with: the step loop, or else the first mode."""
    if steps_are_possible(mixer):
        return step_loop(mixer, u)
    return mixer(u, None, mixer.modes[0])  # type: ignore[no-any-return]


def reference_name(mixer: Mixer) -> str:
    """Return what `by_reference` runs, in words."""
    return "the step loop" if steps_are_possible(mixer) else f"mode {mixer.modes[0]}"


def loss(result: Any) -> Tensor:
    """Return a sum over every number of a result, each with a weight of its own in [-1, 1]."""
    total = torch.zeros(())
    for tensor in tensors_of(result):
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        if real.is_floating_point():
            weight = torch.linspace(-1, 1, real.numel(), dtype=real.dtype, device=real.device)
            total = total.to(real) + (real * weight.view(real.shape)).sum()
    return total


def gradients(result: Any, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return d(loss)/d(leaf) for each leaf, zero where it plays no part."""
    found = torch.autograd.grad(loss(result), list(leaves), allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]


def trainable(mixer: Mixer) -> dict[str, Tensor]:
    """Return the parameters that training changes, by name."""
    return {name: p for name, p in mixer.named_parameters() if p.requires_grad}


@torch.no_grad()
def slope_error(
    value: Callable[[], Tensor], leaf: Tensor, slope: Tensor, direction: Tensor, size: float
) -> float:
    """Return |slope along a direction - (f(x + e d) - f(x - e d)) / 2 e| in parts of a size.

    For the first step by which it is no more than ALLOWED, or else the better one.
    """
    expected = float((slope.conj() * direction).real.sum())
    errors = []
    for step in STEPS:
        errors.append(abs(_quotient(value, leaf, direction, step) - expected) / size)
        if errors[-1] <= ALLOWED:
            return errors[-1]
    return min(errors)


def _quotient(value: Callable[[], Tensor], leaf: Tensor, direction: Tensor, step: float) -> float:
    kept = leaf.clone()
    ahead = float(_moved(leaf, kept + step * direction, value))
    behind = float(_moved(leaf, kept - step * direction, value))
    leaf.copy_(kept)
    return (ahead - behind) / (2 * step)


def _moved(leaf: Tensor, to: Tensor, value: Callable[[], Tensor]) -> Tensor:
    leaf.copy_(to)
    return value()
