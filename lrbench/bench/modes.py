"""`lrbench bench modes`: each way to evaluate a mixer against a loop over its single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from lrbench.bench.timing import Call, alternate
from lrbench.mixers.base import Mixer

LOOP = "step loop"


@dataclass(frozen=True)
class ModeCost:
    """Forward and backward of one mode at one length, in seconds and over the loop's."""

    model: str
    length: int
    batch: int
    mode: str
    seconds: float
    speed_up: float
    rounds: list[float]


def mode_costs(
    name: str,
    mixer: Mixer,
    length: int,
    batch: int,
    rounds: int,
    seconds: float,
    tell: Callable[[str], None] = lambda line: None,
) -> list[ModeCost]:
    """Measure every mode of a mixer on standard normal inputs (batch, length, D), in turn."""
    u = torch.randn(batch, length, mixer.width, generator=torch.Generator().manual_seed(0))
    u = u.to(next(mixer.parameters(), u).device).requires_grad_()
    calls: dict[str, Call] = {LOOP: training_of(lambda: by_steps(mixer, u), mixer, u)}
    for mode in mixer.modes:
        calls[mode] = training_of(partial(_outputs, mixer, u, mode), mixer, u)
    measured = alternate(calls, rounds, seconds, tell)
    return [
        ModeCost(
            model=name,
            length=length,
            batch=batch,
            mode=mode,
            seconds=measured.time(mode),
            speed_up=measured.ratio(LOOP, mode),
            rounds=measured.seconds[mode],
        )
        for mode in calls
    ]


def by_steps(mixer: Mixer, u: Tensor) -> Tensor:
    """Return y (B, T, D) by `step`, one position after the other, as a program online would."""
    state, outputs = mixer.initial_state(len(u)), []
    for now in u.unbind(1):
        y, state = mixer.step(now, state)
        outputs.append(y)
    return torch.stack(outputs, 1)


def _outputs(mixer: Mixer, u: Tensor, mode: str) -> Tensor:
    y: Tensor = mixer(u, None, mode)[0]
    return y


def training_of(forward: Callable[[], Tensor], mixer: Mixer, u: Tensor) -> Call:
    """Return a call that does `forward` and the backward of the sum of what it returns."""
    leaves = [u, *(p for p in mixer.parameters() if p.requires_grad)]

    def call() -> Sequence[Tensor | None]:
        return torch.autograd.grad(forward().sum(), leaves, allow_unused=True)

    return call
