"""The diagonal linear RNN with transitions that depend on the input.

Fan, Chi & Rudnicky, "Advancing Regular Language Reasoning in Linear Recurrent Neural Networks",
arXiv:2309.07412v2, Eq. 3:

    x_k = v_k x_{k-1} + B u_k,    v_k = f(u_k)          (elementwise)

The paper leaves the range of f open, which decides everything: `range` is one of

    sigmoid   v = sigma(z)                 (0, 1)       nothing can alternate
    tanh      v = tanh(z)                  (-1, 1)      parity
    complex   v = sigma(z) exp(i phi)      open disc    counting modulo any M
    unit      v = exp(i phi)               the circle   the same, without forgetting

with z and phi from g(u_k), linear or Linear-ReLU-Linear (`f`). phi = 2 pi sigma(.), or with
`phase` = free the number itself.

Glossary: transition = g, value = B (complex ranges: its two parts in turn); states x (B, T, N),
N = `state_size`, model.width by default; start = x_0, zero unless `learn_x0`. The output is the
state itself, as real numbers, or a linear map of it where those are not D. Unlike the paper's, B
has a bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of, only_with
from lrbench.mixers.base import LinearMixer
from lrbench.mixers.complex_linear import as_complex, as_rows
from lrbench.mixers.input_maps import MAPS, apply_map, input_map
from lrbench.registry import register_mixer
from lrbench.scan import Diagonal

RANGES = ("sigmoid", "tanh", "complex", "unit")
COMPLEX = ("complex", "unit")
PHASES = ("sigmoid", "free")


@dataclass
class LrnnDiagConfig:
    """Settings of `lrnn_diag`.

    range: where the numbers of the transition lie. phase: how a phase is made of its number: 2 pi
    sigmoid, or the number itself (free). state_size: N, numbers of the state; unset the width. f:
    the map from an input to the transition, linear or Linear-ReLU-Linear. values: the map B from an
    input to what is added, likewise. hidden: units inside a Linear-ReLU-Linear. learn_x0: whether
    the first state is learnt, not zero.
    """

    range: str = "sigmoid"
    phase: str = "sigmoid"
    state_size: int | None = None
    f: str = "mlp"
    values: str = "linear"
    hidden: int = 64
    learn_x0: bool = False

    def __post_init__(self) -> None:
        one_of("model.mixer.range", self.range, RANGES)
        one_of("model.mixer.phase", self.phase, PHASES)
        one_of("model.mixer.f", self.f, MAPS)
        one_of("model.mixer.values", self.values, MAPS)
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.hidden", self.hidden, 1)
        own, turns, layers = type(self), self.range in COMPLEX, "mlp" in (self.f, self.values)
        other = "model.mixer.range=complex or unit"
        only_with("model.mixer.phase", self.phase, own.phase, turns, other)
        other = "model.mixer.f=mlp or model.mixer.values=mlp"
        only_with("model.mixer.hidden", self.hidden, own.hidden, layers, other)


@register_mixer("lrnn_diag", LrnnDiagConfig, "diagonal, input-dependent (Fan et al. 2024, Eq. 3)")
class DiagonalMixer(LinearMixer):
    """Elementwise transitions made from the input (Fan et al. 2024, Eq. 3)."""

    default_mode: ClassVar[str] = "auto"

    def __init__(self, config: LrnnDiagConfig, width: int) -> None:
        super().__init__(config, width)
        size = self.size = config.state_size or width
        self.complex = config.range in COMPLEX
        numbers = 2 * size if self.complex else size
        coordinates = numbers if config.range == "complex" else size
        self.transition = input_map(config.f, width, config.hidden, coordinates)
        self.value = input_map(config.values, width, config.hidden, numbers)
        start = torch.randn(numbers) if config.learn_x0 else torch.zeros(numbers)
        self.start = nn.Parameter(start, requires_grad=config.learn_x0)
        self.out = nn.Identity() if numbers == width else nn.Linear(numbers, width)

    @property
    def state_size(self) -> int:
        return len(self.start)

    def initial_state(self, batch: int) -> Tensor:
        start = as_complex(self.start) if self.complex else self.start
        return start.expand(batch, -1)

    def coefficients(self, u: Tensor) -> tuple[Diagonal, Tensor]:
        raw, inputs = apply_map(self.transition, u), apply_map(self.value, u)
        return Diagonal(self.squashed(raw)), as_complex(inputs) if self.complex else inputs

    def squashed(self, raw: Tensor) -> Tensor:
        """Return v (B, T, N) from g(u): (B, T, N), or (B, T, 2N) for moduli and phases."""
        if self.config.range == "sigmoid":
            return raw.sigmoid()
        if self.config.range == "tanh":
            return raw.tanh()
        if self.config.range == "unit":
            phase = self._phase(raw)
            return torch.polar(torch.ones_like(phase), phase)
        modulus, phase = raw.split(self.size, -1)
        return torch.polar(modulus.sigmoid(), self._phase(phase))

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        y: Tensor = self.out(as_rows(states) if self.complex else states)
        return y

    def _phase(self, raw: Tensor) -> Tensor:
        return raw if self.config.phase == "free" else 2 * pi * raw.sigmoid()
