"""Liquid-S4: state space models whose transition is modulated by their own input.

Hasani, Lechner, Wang, Chahine, Amini & Rus, "Liquid Structural State-Space Models", ICLR 2023
(arXiv:2209.12951); per channel, with the diagonal systems of `s4d.py`:

    exact   x_k = (Abar + diag(Bbar u_k)) x_{k-1} + Bbar u_k,     y_k = 2 Re(C x_k) + D u_k
            (the recurrence of Fan et al. 2024, Eq. 4)
    kb      y = K * u + D u + sum_{p=2..P} K^(p) * c^(p),         K^(p)_n = 2 Re(C Abar^n Bbar^p)
    pb      y = K * u + D u + sum_{p=2..P} 2 Re(C Bbar^p) c^(p)   (kb with Abar = I, at lag 0)
            c^(p)_k = u_k u_{k-1} .. u_{k-p+1}, zero before the start; powers are elementwise

`kb` and `pb` keep, of all products of inputs that `exact` contains, those of P neighbours at most.
`contract` bounds what is multiplied: c^(p), and for `exact` the u_k in the transition.

Glossary (that of `ssm.py`, and)
    P         degree
    recent    the last P - 1 inputs, (B, P - 1, D), which products across a cut need

|Abar + Bbar u| may exceed one, so `exact` is no contraction: trained at 40 positions, a state may
overflow at 500. Differences from the released code: there the correlation terms run backwards in
time (the layer is not causal), the kernel of degree p + 1 sums over the states of B, and its
recurrent form leaves the liquid terms out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lrbench.checks import at_least, one_of, only_with
from lrbench.mixers.state_space.s4d import DiagonalStateSpace, S4DConfig, diagonal_response
from lrbench.mixers.state_space.ssm import System, paired
from lrbench.registry import register_mixer
from lrbench.scan.diagonal.modulated import modulated_scan, modulated_states

MODES = {
    "exact": ("sequential", "loop", "scan"),
    "kb": ("sequential", "convolution"),
    "pb": ("sequential", "convolution"),
}
CONTRACTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda c: c,
    "tanh": torch.tanh,
    "lecun": lambda c: 1.7159 * torch.tanh(2 / 3 * c),
}


@dataclass
class LiquidS4Config(S4DConfig):
    """Settings of `liquid_s4`; see `S4DConfig` for the others.

    kernel: the recurrence as it is (exact), or one of its two approximations. degree: P, how many
    neighbouring inputs `kb` and `pb` multiply. contract: what bounds the numbers that are
    multiplied.
    """

    state_size: int = 16
    kernel: str = "exact"
    degree: int = 2
    contract: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("model.mixer.kernel", self.kernel, tuple(MODES))
        at_least("model.mixer.degree", self.degree, 2)
        key, degree, other = "model.mixer.degree", type(self).degree, "model.mixer.kernel=kb or pb"
        only_with(key, self.degree, degree, self.kernel != "exact", other)
        one_of("model.mixer.contract", self.contract, tuple(CONTRACTIONS))


@register_mixer(
    "liquid_s4", LiquidS4Config, "input-modulated state spaces (Hasani et al. 2023)", backbone="s4"
)
class LiquidS4Mixer(DiagonalStateSpace):
    """Diagonal state spaces modulated by their input, one per channel (Hasani et al. 2023)."""

    config: LiquidS4Config

    def __init__(self, config: LiquidS4Config, width: int) -> None:
        super().__init__(config, width)
        self.modes = MODES[config.kernel]  # type: ignore[misc]
        self.default_mode = self.modes[1]  # type: ignore[misc]
        self.contract = CONTRACTIONS[config.contract]

    @property
    def state_size(self) -> int:
        recent = 0 if self.config.kernel == "exact" else self.config.degree - 1
        return self.width * (self.config.state_size + recent)

    def initial_state(self, batch: int) -> Any:
        x = super().initial_state(batch)
        if self.config.kernel == "exact":
            return x
        return x, x.real.new_zeros(batch, self.config.degree - 1, self.width)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        mode = mode or self.default_mode
        if self.config.kernel != "exact":
            return self.correlated(u, state, mode)
        x = self.initial_state(len(u)) if state is None else state
        if mode == "sequential":
            return self.loop(u, x)
        system, factors = self.system(), self.contract(u)
        if mode == "loop":
            parts = system.a, system.b, system.c, system.skip
            return modulated_scan(*parts, u, factors, x)
        states = modulated_states(system.a, system.b, u, factors, x)
        return system.read(states, u), states[:, -1]

    def loop(self, u: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate Eq. 4 as it is written, one position at a time."""
        system, outputs = self.system(), []
        for now in u.unbind(1):
            x = (system.a + system.b * self.contract(now)[..., None]) * x + system.b * now[
                ..., None
            ]
            outputs.append(system.read(x, now))
        return torch.stack(outputs, 1), x

    def correlated(self, u: Tensor, state: Any, mode: str) -> tuple[Tensor, Any]:
        """Evaluate `kb` or `pb` from (x, recent), or from rest."""
        before = self.initial_state(len(u)) if state is None else state
        products, recent = self.products(u, before[1])
        system = self.system()
        powers = [system.b]
        for _ in products:
            powers.append(powers[-1] * system.b)
        inputs = [(system, u)]
        if self.config.kernel == "kb":
            silent = replace(system, skip=torch.zeros_like(system.skip))
            inputs += [(replace(silent, b=b), c) for b, c in zip(powers[1:], products, strict=True)]
        x = None if state is None else before[0]
        y, last = together(inputs, before[0]) if mode == "sequential" else convolved(inputs, x)
        if self.config.kernel == "pb":
            for b, c in zip(powers[1:], products, strict=True):
                y = y + paired(system.c * b) * c
        return y, (last, recent)

    def products(self, u: Tensor, recent: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the contracted c^(2) .. c^(P), each (B, T, D), and the inputs to keep."""
        known, length = torch.cat([recent, u], 1), u.shape[1]
        product, found = u, []
        for lag in range(1, self.config.degree):
            first = recent.shape[1] - lag
            product = product * known[:, first : first + length]
            found.append(self.contract(product))
        return found, known[:, length:]


def together(inputs: Sequence[tuple[System, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """Drive one state x (B, D, M) by several inputs (B, T, D), one position at a time."""
    outputs = []
    (first, _), *products = inputs
    for now, *terms in zip(*(u.unbind(1) for _, u in inputs), strict=True):
        x = first.advance(x, now)
        for (system, _), term in zip(products, terms, strict=True):
            x = x + system.b * term[..., None]
        outputs.append(first.read(x, now))
    return torch.stack(outputs, 1), x


def convolved(inputs: Sequence[tuple[System, Tensor]], x: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return what `together` does as a sum of convolutions; x is None at rest."""
    (system, u), *products = inputs
    y, last = diagonal_response(system, u.shape[1], x is not None)(u, x)
    for system, u in products:
        more, moved = diagonal_response(system, u.shape[1], False)(u, None)
        y, last = y + more, last + moved
    return y, last
