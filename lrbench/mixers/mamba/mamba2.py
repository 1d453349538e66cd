"""Mamba-2: matrices that decay by one number a head, chosen by the input (SSD).

Dao & Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured
State Space Duality", arXiv:2405.21060. The range [-1, 1] is that of Grazzi et al.,
arXiv:2411.12537, for Mamba. Of E = expand D channels each head has P = E / H:

    z, x, b, c, s = W u_t,   (x, b, c) <- silu(conv(x, b, c)),   d = softplus(s + w_d)
    S_t = g(d a) S_{t-1} + d x b^T,   a = -exp(A_log),           g(k) = r e^k - (r - 1)
    y_t = W_o RMSNorm((S c + skip x) * silu(z))

d, a and skip are one number a head; b and c, of N numbers, are shared by all heads.

Glossary
    project      W                      convolution  conv, of conv_size positions; 0: none
    time_bias    w_d (H), softplus(w_d) log-uniform in [0.001, 0.1]
    log_rate     A_log (H), of numbers uniform in [1, 16]      skip   (H), begins as one
    r            range: positive, 1, g in (0, 1); signed, 2, g in (-1, 1)
    S_0          learn_x0: zero, or learnt from zero

The state: S (H, P, N) and the last conv_size - 1 of (x, b, c) before the convolution. Modes:
`lrbench/scan/matrix/duality.py`.

Differences from the released code: `signed`; its heads have 64 channels, b and c may be several
groups', and steps may be held within limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from lrbench.checks import at_least, one_of, share
from lrbench.mixers.base import RANGES, STARTS, Mixer, ParameterRule
from lrbench.mixers.convolution import CausalConvolution
from lrbench.mixers.time_steps import time_bias
from lrbench.registry import register_mixer
from lrbench.scan.matrix.duality import MODES, Writes, dual_scan

EPSILON = 1e-5

State = tuple[Tensor, Tensor]


@dataclass
class Mamba2Config:
    """Settings of `mamba2`: `heads` matrices of expand D / heads x `state_size` numbers.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    expand: channels over the width. heads: which the channels are shared by, a matrix each.
    state_size: N, numbers of a channel's state. conv_size: positions of the convolution; 0: none.
    range: of transitions, positive (0, 1) or signed (-1, 1). learn_x0: whether the first state is
    learnt, not zero.
    """

    expand: int = 2
    heads: int = 4
    state_size: int = 32
    conv_size: int = 4
    range: str = "positive"
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.expand", self.expand, 1)
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.conv_size", self.conv_size, 0)
        one_of("model.mixer.range", self.range, tuple(RANGES))
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer("mamba2", Mamba2Config, "Mamba-2 (Dao & Gu 2024)", backbone="mamba")
class Mamba2Mixer(Mixer):
    """Matrices under one decay a head, behind a convolution and before a gate and a norm."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunked"

    def __init__(self, config: Mamba2Config, width: int) -> None:
        super().__init__(config, width)
        heads, size = config.heads, config.state_size
        self.channels = config.expand * width
        values = share(self.channels, heads, "model.mixer.expand * model.width")
        self.mixed = self.channels + 2 * size  # x, b, c
        self.project = nn.Linear(width, self.channels + self.mixed + heads, bias=False)
        self.convolution = (
            CausalConvolution(self.mixed, config.conv_size, bias=True) if config.conv_size else None
        )
        self.time_bias = nn.Parameter(time_bias(heads))
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(self.channels, EPSILON)
        self.out = nn.Linear(self.channels, width, bias=False)
        zero = torch.zeros(heads, values, size)
        self.start = nn.Parameter(zero, requires_grad=config.learn_x0)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return dict.fromkeys(("log_rate", "time_bias", "skip"), ParameterRule(decay=False))

    @property
    def state_size(self) -> int:
        kept = 0 if self.convolution is None else self.convolution.state_size
        return self.start.numel() + kept

    def initial_state(self, batch: int) -> State:
        """Return S_0, (B, H, P, N), and what the convolution keeps, (B, conv_size - 1, E + 2 N)."""
        if self.convolution is None:
            before = self.start.new_zeros(batch, 0, self.mixed)
        else:
            before = self.convolution.initial_state(batch)
        return self.start.expand(batch, -1, -1, -1), before

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        s_0, before = self.initial_state(len(u)) if state is None else state
        heads, size, reach = self.config.heads, self.config.state_size, RANGES[self.config.range]
        z, mixed, s = self.project(u).split([self.channels, self.mixed, heads], -1)
        if self.convolution is None:
            mixed, after = silu(mixed), before
        else:
            mixed, after = self.convolution(mixed, before)
        x, b, c = mixed.split([self.channels, size, size], -1)
        x = x.unflatten(-1, (heads, -1))
        steps = softplus(s + self.time_bias)  # (B, T, H)
        decays = reach * (-self.log_rate.exp() * steps).exp() - (reach - 1)
        writes = Writes(b[:, :, None], x, steps)
        y, last = dual_scan(decays, writes, c[:, :, None], s_0, mode or self.default_mode)
        y = (y + self.skip[:, None] * x).flatten(2)
        return self.out(self.norm(y * silu(z))), (last, after)
