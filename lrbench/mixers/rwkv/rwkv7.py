"""RWKV-7: a matrix that forgets by channel and is written and erased along keys.

Peng et al., "RWKV-7 'Goose' with Expressive Dynamic State Evolution", arXiv:2503.14456; equations
and initial values as in the authors' public code (RWKV-v7, its training code and its version in
numpy). Per head, with z'_x = z_t + mu_x (z_{t-1} - z_t) for x in r, w, k, v, a, g and z_0 = 0:

    r = W_r z'_r,   k = W_k z'_k,   v = W_v z'_v
    w = exp(-e^(-1/2) sigmoid(w_0 + tanh(z'_w W_1) W_2))             decay, in (0.545, 1)
    a = s sigmoid(a_0 + (z'_a A_1) A_2)                              how much is erased
    g = sigmoid(z'_g G_1) G_2
    kappa = k * xi / |k * xi|,   k~ = k * (1 + (a - 1) * alpha)
    S_t = S_{t-1} (diag(w) - kappa (a * kappa)^T) + v k~^T
    y_t = W_o ((GroupNorm(S r) + (r . (k~ * rho)) v) * g)

The channel mix, the other sublayer of a block, is W_v relu(W_k z'_k)^2; stack `gpt` asks for it.

Glossary
    mu     shares                of the position before, one row for each of r, w, k, v, a, g
    GroupNorm  norm              its gains begin as (l / L)^0.7 in layer l = 1..L
    w_0    decay                 with maps of low rank, `decay_in` W_1 and `decay_out` W_2
    a_0    erase                 likewise; s: `a_scale`
    xi     removal, alpha        replacement, rho  bonus
    S      (H, V, K), V = K = width / heads; the state is S and the last z

An erasure along kappa of what has not decayed yet is, of what has, one along kappa / w: two updates
of rank one after a decay (`lrbench/scan/matrix/householder.py`). A transition is similar to the
symmetric diag(w) - (sqrt(a) * kappa)(sqrt(a) * kappa)^T: eigenvalues are real and, with s = 1,
above w - 1 > -0.46, so what changes its sign loses half of its size: no parity over all lengths.
s = 2 (not the paper's) allows a reflection.

Differences from the code: a head has 64 features there and the ranks grow with the width; values of
later layers are not mixed with those of the first (`v_first`), which one layer has none of. W_r,
W_k, W_v and the channel mix's W_k are drawn as its layers draw them, uniformly; its training script
then draws them anew, orthogonal with gain 1 (W_k of the time mix 0.1). Its head has no bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from lrbench.checks import at_least, share
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.mixers.rwkv.rwkv4_channel import shifted
from lrbench.registry import register_mixer
from lrbench.scan.matrix.householder import MODES, HouseholderProducts, delta_rule

State = tuple[Tensor, Tensor]
STACK = {"name": "gpt", "embedding_norm": True}
EPSILON = 64e-5  # of the group norm
LEAST = -math.exp(-0.5)  # log w


@dataclass
class Rwkv7Config:
    """Settings of `rwkv7`.

    heads: how many states there are. rank: of the maps to w, a and g. a_scale: s, the most that is
    erased; 1 in the paper, above it a reflection is possible. expansion: units inside the channel
    mix over the width.
    """

    heads: int = 4
    rank: int = 32
    a_scale: float = 1.0
    expansion: int = 4

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.rank", self.rank, 1)
        at_least("model.mixer.a_scale", self.a_scale, 0)
        at_least("model.mixer.expansion", self.expansion, 1)


@register_mixer("rwkv7", Rwkv7Config, "RWKV-7 (Peng et al. 2025)", backbone=STACK)
class Rwkv7Mixer(Mixer):
    """Time mixing of RWKV-7 (Peng et al. 2025)."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunked"

    def __init__(self, config: Rwkv7Config, width: int) -> None:
        super().__init__(config, width)
        self.size = share(width, config.heads)
        self.shares = nn.Parameter(torch.empty(6, width))
        self.receptance, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.decay_in, self.decay_out = _low_rank(width, config.rank)
        self.erase_in, self.erase_out = _low_rank(width, config.rank)
        self.gate_in, self.gate_out = _low_rank(width, config.rank)
        self.decay, self.erase, self.removal, self.replacement = (
            nn.Parameter(torch.empty(width)) for _ in range(4)
        )
        self.bonus = nn.Parameter(torch.full((config.heads, self.size), -0.04))
        self.norm = nn.GroupNorm(config.heads, width, EPSILON)
        bound = 0.5 * width**-0.5
        for layer, gain in ((self.receptance, 1.0), (self.key, 0.1), (self.value, 1.0)):
            nn.init.uniform_(layer.weight, -gain * bound, gain * bound)
        nn.init.zeros_(self.out.weight)
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Set shares, decays and gains: deeper layers look back less, and remember otherwise."""
        depth = layer / max(1, layers - 1)
        channel = torch.arange(self.width, dtype=self.decay.dtype, device=self.decay.device)
        rank = channel / max(1, self.width - 1)
        powers = channel.new_tensor([0.2, 0.9, 0.7, 0.7, 0.9, 0.2]) * (1 - layer / layers)
        self.shares.copy_(1 - (channel / self.width) ** powers[:, None])
        middle = max(1, self.size - 1) / 2
        zigzag = (channel % self.size - middle) / middle
        zigzag = zigzag * zigzag.abs()
        self.decay.copy_(-5.5 + 6 * rank ** (1 + depth**0.3) + 2.5 * zigzag)
        self.erase.copy_(-0.19 + 0.3 * zigzag + 0.4 * (rank - 0.5))
        self.removal.copy_(0.71 - 0.1 * (rank - 0.5))
        self.replacement.fill_(1.02)
        self.norm.weight.fill_(((layer + 1) / layers) ** 0.7)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        plain = ("shares", "erase", "removal", "replacement", "bonus", "norm.weight", "norm.bias")
        low_rank = [
            f"{name}_{side}.weight" for name in ("decay", "erase", "gate") for side in ("in", "out")
        ]
        return {"decay": ParameterRule(lr=2.0, decay=False)} | dict.fromkeys(
            (*plain, *low_rank), ParameterRule(decay=False)
        )

    def channel_mixer(self) -> Mixer:
        return Rwkv7ChannelMixer(self.config, self.width)

    @property
    def state_size(self) -> int:
        return self.width * (self.size + 1)

    def initial_state(self, batch: int) -> State:
        """Return S_0, zeros (B, H, V, K), and z_0, zeros (B, D)."""
        heads, size = self.config.heads, self.size
        zero = self.decay.new_zeros(batch, heads, size, size)
        return zero, self.decay.new_zeros(batch, self.width)

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        s, before = self.initial_state(len(u)) if state is None else state
        change = shifted(u, before) - u
        to_r, to_w, to_k, to_v, to_a, to_g = (torch.addcmul(u, change, mu) for mu in self.shares)
        r, v = self._by_head(self.receptance(to_r)), self._by_head(self.value(to_v))
        gate = self.gate_out(self.gate_in(to_g).sigmoid())
        transition, k = self.transition(to_w, to_k, to_a)
        values = torch.stack([torch.zeros_like(v), v], -2).transpose(1, 2).flatten(0, 1)
        queries = r.transpose(1, 2).flatten(0, 1)
        how = mode or self.default_mode
        y, s = delta_rule(transition, values, queries, s.flatten(0, 1), how)
        heads: Tensor = y.unflatten(0, (len(u), -1))
        normal = self.norm(heads.transpose(1, 2).flatten(2).flatten(0, 1)).view_as(u)
        present = ((r * k * self.bonus).sum(-1, keepdim=True) * v).flatten(2)
        after: Tensor = s.unflatten(0, (len(u), -1))
        return self.out((normal + present) * gate), (after, u[:, -1])

    def transition(
        self, to_w: Tensor, to_k: Tensor, to_a: Tensor
    ) -> tuple[HouseholderProducts, Tensor]:
        """Return the transitions of B H strings, and k~ (B, T, H, K), from inputs (B, T, D)."""
        raw = self.decay + self.decay_out(self.decay_in(to_w).tanh())
        log_decay = self._by_head(LEAST * raw.sigmoid())
        a = self.config.a_scale * (self.erase + self.erase_out(self.erase_in(to_a))).sigmoid()
        k = self.key(to_k)
        kappa = normalize(self._by_head(k * self.removal), dim=-1)
        k = self._by_head(k * (1 + (a - 1) * self.replacement))
        removed = kappa * (-log_decay).exp()
        keys = torch.stack([kappa * self._by_head(a), k], -2)
        erased = torch.stack([removed, torch.zeros_like(k)], -2)
        keys, erased, log_decay = (
            x.transpose(1, 2).flatten(0, 1) for x in (keys, erased, log_decay)
        )
        return HouseholderProducts(keys, erased, log_decay, LEAST), k

    def _by_head(self, x: Tensor) -> Tensor:
        """Return x (B, T, D) as (B, T, H, D / H)."""
        heads: Tensor = x.unflatten(-1, (self.config.heads, self.size))
        return heads


class Rwkv7ChannelMixer(Mixer):
    """Channel mixing of RWKV-7: y_t = W_v relu(W_k z'_k)^2. The state is the last z."""

    def __init__(self, config: Rwkv7Config, width: int) -> None:
        super().__init__(config, width)
        inner = config.expansion * width
        self.share = nn.Parameter(torch.empty(width))
        self.key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(inner, width, bias=False)
        bound = 0.5 * width**-0.5
        nn.init.uniform_(self.key.weight, -bound, bound)
        nn.init.zeros_(self.value.weight)
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Set the share of the position before: deeper layers look back less."""
        channel = torch.arange(self.width, dtype=self.share.dtype, device=self.share.device)
        self.share.copy_(1 - (channel / self.width) ** ((1 - layer / layers) ** 4))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {"share": ParameterRule(decay=False)}

    @property
    def state_size(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> Tensor:
        return self.share.new_zeros(batch, self.width)

    def forward(
        self, u: Tensor, state: Tensor | None = None, mode: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D) to y (B, T, D); nothing recurs, so every mode is the same."""
        before = shifted(u, self.initial_state(len(u)) if state is None else state)
        k = self.key(torch.addcmul(u, before - u, self.share))
        return self.value(k.relu().square()), u[:, -1]


def _low_rank(width: int, rank: int) -> tuple[nn.Linear, nn.Linear]:
    """Return maps D to `rank`, of zeros, and back, orthogonal with a gain of a tenth."""
    first, second = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
    nn.init.zeros_(first.weight)
    nn.init.orthogonal_(second.weight, gain=0.1 * max(1.0, rank / width) ** 0.5)
    return first, second
