"""Mamba: diagonal systems that choose by their input what they forget, write and read (S6).

Gu & Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", arXiv:2312.00752. The
range [-1, 1]: Grazzi et al., "Unlocking State-Tracking in Linear RNNs Through Negative
Eigenvalues", arXiv:2411.12537. Each of E = expand D channels has a state h of N numbers:

    x, z = W u_t,   x <- silu(conv(x)),   (s, b, c) = W_x x,   d = softplus(W_d s + w_d)
    h_t = g(d a) * h_{t-1} + d x b,       a = -exp(A_log),     g(k) = r e^k - (r - 1)
    y_t = W_o ((c . h_t + skip x) * silu(z))

b and c, of N numbers, are shared by all channels; d, x and z are each channel's own.

Glossary
    project      W                      convolution  conv, of conv_size positions; 0: none
    selection    W_x                    rank         of s, ceil(D / 16) unless set
    step_size    W_d, w_d: softplus(w_d) log-uniform in [0.001, 0.1], W_d uniform in +-rank^(-1/2)
    log_rate     A_log (N, E), log 1..N                        skip   begins as one
    r            range: positive, 1, g in (0, 1); signed, 2, g in (-1, 1)
    h_0          learn_x0: zero, or learnt from zero

The state: h (N, E) and the last conv_size - 1 of x before its convolution. What a step is decides
both what is kept and how much is written, so g = 1, d = 0, writes nothing. As it begins 6 % of the
transitions of `signed` are negative. Modes: `lrbench/scan/diagonal/selective.py`.

Differences from the released code, and mambapy's: h_0 can be learnt; `signed` is Grazzi's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import RANGES, STARTS, Mixer, ParameterRule
from lrbench.mixers.convolution import CausalConvolution
from lrbench.mixers.time_steps import time_bias
from lrbench.registry import register_mixer
from lrbench.scan.diagonal.selective import MODES, selective_scan

CHANNELS_A_RANK = 16

State = tuple[Tensor, Tensor]


@dataclass
class MambaConfig:
    """Settings of `mamba`: `expand` D channels of `state_size` numbers each.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    expand: channels over the width. state_size: N, numbers of a channel's state. rank: numbers that
    steps are made of; unset width / 16. conv_size: positions of the convolution; 0: none. range: of
    transitions, positive (0, 1) or signed (-1, 1). learn_x0: whether the first state is learnt, not
    zero.
    """

    expand: int = 2
    state_size: int = 16
    rank: int | None = None
    conv_size: int = 4
    range: str = "positive"
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.expand", self.expand, 1)
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.rank", self.rank, 1)
        at_least("model.mixer.conv_size", self.conv_size, 0)
        one_of("model.mixer.range", self.range, tuple(RANGES))
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer("mamba", MambaConfig, "Mamba (Gu & Dao 2023)", backbone="mamba")
class MambaMixer(Mixer):
    """Selective diagonal systems behind a convolution and before a gate (Gu & Dao 2023)."""

    modes: ClassVar[tuple[str, ...]] = MODES

    def __init__(self, config: MambaConfig, width: int) -> None:
        super().__init__(config, width)
        self.channels, size = config.expand * width, config.state_size
        self.rank = config.rank or -(-width // CHANNELS_A_RANK)
        self.project = nn.Linear(width, 2 * self.channels, bias=False)  # x, z
        self.convolution = (
            CausalConvolution(self.channels, config.conv_size, bias=True)
            if config.conv_size
            else None
        )
        self.selection = nn.Linear(self.channels, self.rank + 2 * size, bias=False)  # s, b, c
        self.step_size = nn.Linear(self.rank, self.channels)
        nn.init.uniform_(self.step_size.weight, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            self.step_size.bias.copy_(time_bias(self.channels))
        modes = torch.arange(1.0, size + 1)
        self.log_rate = nn.Parameter(modes.log()[:, None].repeat(1, self.channels))
        self.skip = nn.Parameter(torch.ones(self.channels))
        self.out = nn.Linear(self.channels, width, bias=False)
        zero = torch.zeros(size, self.channels)
        self.start = nn.Parameter(zero, requires_grad=config.learn_x0)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return dict.fromkeys(("log_rate", "skip"), ParameterRule(decay=False))

    @property
    def state_size(self) -> int:
        kept = 0 if self.convolution is None else self.convolution.state_size
        return self.start.numel() + kept

    def initial_state(self, batch: int) -> State:
        """Return h_0, (B, N, E), and what the convolution keeps, (B, conv_size - 1, E)."""
        if self.convolution is None:
            before = self.start.new_zeros(batch, 0, self.channels)
        else:
            before = self.convolution.initial_state(batch)
        return self.start.expand(batch, -1, -1), before

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        h, before = self.initial_state(len(u)) if state is None else state
        x, z = self.project(u).chunk(2, -1)
        x, after = (silu(x), before) if self.convolution is None else self.convolution(x, before)
        sizes = [self.rank, self.config.state_size, self.config.state_size]
        s, b, c = self.selection(x).split(sizes, -1)
        steps = softplus(self.step_size(s))
        parts = -self.log_rate.exp(), self.skip, steps, x, b, c, h
        how = mode or self.default_mode
        y, h = selective_scan(*parts, RANGES[self.config.range], how)
        return self.out(y * silu(z)), (h, after)
