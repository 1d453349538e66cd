"""Mamba-3: matrices that decay and turn by what the input says, written by the trapezoidal rule.

"Mamba-3: Improved Sequence Modeling using State Space Principles", arXiv:2603.15569, for one input
and one output a head (SISO); initial values as in the authors' public code. Of E = expand D
channels each head has P = E / H:

    z, x, b, c, s, f, l, w = W u_t,   d = softplus(s + w_d),   a = exp(-d max(softplus(f), 1e-4))
    angle_t = angle_{t-1} + d pi tanh(w)
    k = R(angle) (RMSNorm(b) + b_0),   q = R(angle) (RMSNorm(c) + c_0),   m = sigmoid(l)
    S_t = a S_{t-1} + (1 - m) d a x_{t-1} k_{t-1}^T + m d x_t k_t^T
    y_t = W_o ((S q + skip x) * silu(z))

d, a, m and skip are one number a head; b and c, of N numbers, and w are shared by all heads. R
turns pairs of numbers, of half of the N or all (`rotated`). S under decays, read by what has
turned, is a state that turns itself: eigenvalues are a e^(i angle), so cycles of any length are in
reach. A step is at most half a turn at d = 1, and a is below one, so a state that is not written
fades: by 1 in 10,000 a position at least, at d = 1.

Glossary
    project      W                      time_bias    w_d (H), as in Mamba-2
    key_bias, query_bias                b_0, c_0 (H, N), begin as one
    skip         (H), begins as one     S_0          learn_x0: zero, or learnt from zero

A step takes up once more, by the other end of the rule, what was written before it: as its share is
known only then, it is written behind the position that is read, and modes are those of Mamba-2
(`lrbench/scan/matrix/duality.py`).

The state: S (H, P, N), the angles in turns (H, R), and the last k (H, N) and x (H, P).

Differences from the released code: heads have 64 channels and 128 numbers a key there, and several
inputs and outputs a head (MIMO) are an option; another state of it has 1 + f, or 1 / (1 - f) where
f < 0, for softplus(f). There neighbours turn together, here numbers half of the turning ones apart,
which renames them. There is no convolution, there as here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

from lrbench.checks import at_least, one_of, share
from lrbench.mixers.base import STARTS, Mixer, ParameterRule
from lrbench.mixers.time_steps import time_bias
from lrbench.registry import register_mixer
from lrbench.scan.matrix.duality import MODES, Writes, dual_scan

SHARES = {"half": 0.5, "all": 1.0}
SLOWEST = 1e-4  # a = exp(-d times this), at least
EPSILON = 1e-5

State = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass
class Mamba3Config:
    """Settings of `mamba3`: `heads` matrices of expand D / heads x `state_size` numbers.

    rotated: half of a key's numbers turn, or all. init: random, or exact: weights that are right
    by construction (lrbench/models/exact/).

    expand: channels over the width. heads: which the channels are shared by, a matrix each.
    state_size: N, numbers of a channel's state. learn_x0: whether the first state is learnt, not
    zero.
    """

    expand: int = 2
    heads: int = 4
    state_size: int = 32
    rotated: str = "half"
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.expand", self.expand, 1)
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.state_size", self.state_size, 4)
        one_of("model.mixer.rotated", self.rotated, tuple(SHARES))
        one_of("model.mixer.init", self.init, STARTS)


@register_mixer("mamba3", Mamba3Config, "Mamba-3 (2026)", backbone="mamba")
class Mamba3Mixer(Mixer):
    """Matrices under one decay a head, with keys and queries that turn by the input."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunked"

    def __init__(self, config: Mamba3Config, width: int) -> None:
        super().__init__(config, width)
        heads, size = config.heads, config.state_size
        self.channels = config.expand * width
        values = share(self.channels, heads, "model.mixer.expand * model.width")
        self.turning = int(size * SHARES[config.rotated]) // 2  # pairs of numbers
        sizes = [self.channels, self.channels, size, size, heads, heads, heads, self.turning]
        self.parts = sizes  # z, x, b, c, s, f, l, w
        self.project = nn.Linear(width, sum(sizes), bias=False)
        self.time_bias = nn.Parameter(time_bias(heads))
        self.key_norm, self.query_norm = (nn.RMSNorm(size, EPSILON) for _ in range(2))
        self.key_bias, self.query_bias = (nn.Parameter(torch.ones(heads, size)) for _ in range(2))
        self.skip = nn.Parameter(torch.ones(heads))
        self.out = nn.Linear(self.channels, width, bias=False)
        zero = torch.zeros(heads, values, size)
        self.start = nn.Parameter(zero, requires_grad=config.learn_x0)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return dict.fromkeys(("time_bias", "skip"), ParameterRule(decay=False))

    @property
    def state_size(self) -> int:
        size: int = self.config.state_size
        beside: int = self.config.heads * (self.turning + size) + self.channels  # angles, k and x
        return self.start.numel() + beside

    def initial_state(self, batch: int) -> State:
        """Return S_0 (B, H, P, N), angles (B, H, R), and zeros for the k and x before a string."""
        heads, values, size = self.start.shape
        zeros = (self.start.new_zeros(batch, heads, n) for n in (self.turning, size, values))
        turned, key, value = zeros
        return self.start.expand(batch, -1, -1, -1), turned, key, value

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        s, turned, key, value = self.initial_state(len(u)) if state is None else state
        z, x, b, c, step, fall, share, turn = self.project(u).split(self.parts, -1)
        x = x.unflatten(-1, (self.config.heads, -1))
        steps = softplus(step + self.time_bias)  # (B, T, H)
        decays = (-steps * softplus(fall).clamp_min(SLOWEST)).exp()
        turns = angles(steps[..., None] * turn.tanh()[:, :, None] / 2, turned)
        cos, sin = (2 * math.pi * turns).cos(), (2 * math.pi * turns).sin()
        k = rotated(self.key_norm(b)[:, :, None] + self.key_bias, cos, sin)
        q = rotated(self.query_norm(c)[:, :, None] + self.query_bias, cos, sin)
        now = steps * share.sigmoid()
        again = steps - now  # what a step takes of the write before it
        writes = Writes(k, x, now, pad(again[:, 1:], (0, 0, 0, 1)))
        s = s + (again[:, 0, :, None] * value)[..., None] * key[:, :, None]
        y, last = dual_scan(decays, writes, q, s, mode or self.default_mode)
        y = y + self.skip[:, None] * x
        after = last, turns[:, -1], k[:, -1], x[:, -1]
        return self.out(y.flatten(2) * silu(z)), after


def angles(changes: Tensor, before: Tensor) -> Tensor:
    """Return the angles after each change, in turns from 0 to 1: (B, T, H, R).

    changes: in turns, (B, T, H, R); before: (B, H, R). They are added up in double precision: of
    a sum of thousands of turns single precision leaves too little behind the point.
    """
    total = changes.double().cumsum(1) + before[:, None]
    return total.remainder(1).to(changes.dtype)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x (B, T, H, N), its numbers j and R + j turned; cos and sin are (B, T, H, R)."""
    count = cos.shape[-1]
    one, other, rest = x.split([count, count, x.shape[-1] - 2 * count], -1)
    return torch.cat([one * cos - other * sin, one * sin + other * cos, rest], -1)
