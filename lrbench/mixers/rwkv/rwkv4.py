"""RWKV-4: averages with weights that decay at a fixed rate, and the two sublayers around them.

Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", arXiv:2305.13048, time mixing;
initial values as in the authors' public code (RWKV-v4).

    z'_x = mu_x z_t + (1 - mu_x) z_{t-1}   for x in k, v, r; z_0 = 0        token shift
    k = W_k z'_k,  v = W_v z'_v,  r = W_r z'_r                              no biases
    wkv_t = (a_{t-1} + e^{u + k_t} v_t) / (b_{t-1} + e^{u + k_t})           scan/diagonal/triples.py
    y_t = W_o (sigmoid(r_t) wkv_t)

The channel mix, the other sublayer of a block, is in `rwkv4_channel`; stack `gpt` asks for it.

Glossary
    w     decay   exp(parameter) > 0, one per channel, the same at every position
    u     bonus   of the present position over those before it
    mu    shares  one row for each of k, v, r
    state         the last z, and the average m = a / b with the log s = log b of its weight

Differences from the code: its state is (z, p, q, o) with a = p e^o, b = q e^o; (z, m, s) is the
same with o = log b and q = 1, which is left out. It divides by layers - 1 and by channels - 1;
where that is zero, we divide by one. W_k, W_r and W_o start at zero there and here, so an untrained
block adds nothing to its input.

A decay that does not depend on the input, in (0, 1): no state tracking (Merrill et al. 2024).

What stands between the products, sigmoid(r_t) wkv_t, is compiled where it can be
(`gated_averages`). k, v and r may be tables, of pairs of symbols, looked up position by position:
nothing of the size of the strings is made of them, and their gradients are added up in the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from lrbench.checks import at_least
from lrbench.kernels.rows import rows
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.mixers.rwkv.rwkv4_channel import RwkvChannelMixer, shifted
from lrbench.registry import register_mixer
from lrbench.scan.diagonal.gated_averages import compiles, gated_averages
from lrbench.scan.diagonal.triples import EMPTY, weighted_averages

State = tuple[Tensor, Tensor, Tensor]
Tables = tuple[list[Tensor], Tensor]
STACK = {"name": "gpt", "embedding_norm": True}


@dataclass
class Rwkv4Config:
    """Settings of `rwkv4`.

    expansion: units inside the channel mix over the width.
    """

    expansion: int = 4

    def __post_init__(self) -> None:
        at_least("model.mixer.expansion", self.expansion, 1)


@register_mixer("rwkv4", Rwkv4Config, "RWKV-4 (Peng et al. 2023)", backbone=STACK)
class Rwkv4Mixer(Mixer):
    """Time mixing of RWKV-4 (Peng et al. 2023)."""

    modes: ClassVar[tuple[str, ...]] = ("sequential", "scan")
    takes_symbols: ClassVar[bool] = True

    def __init__(self, config: Rwkv4Config, width: int) -> None:
        super().__init__(config, width)
        self.shares = nn.Parameter(torch.empty(3, width))
        self.decay = nn.Parameter(torch.empty(width))
        self.bonus = nn.Parameter(torch.empty(width))
        self.key, self.value, self.receptance, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        nn.init.orthogonal_(self.value.weight)
        for layer in (self.key, self.receptance, self.out):
            nn.init.zeros_(layer.weight)
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Set decay, bonus and shares: deeper layers remember longer and look back less."""
        depth = layer / max(1, layers - 1)
        channel = torch.arange(self.width, dtype=self.decay.dtype, device=self.decay.device)
        rank = channel / max(1, self.width - 1)
        self.decay.copy_(-5 + 8 * rank ** (0.7 + 1.3 * depth))
        self.bonus.copy_(math.log(0.3) + 0.5 * ((channel + 1) % 3 - 1))
        now = (channel / self.width) ** (1 - layer / layers)
        self.shares.copy_(torch.stack([now, now + 0.3 * depth, now.sqrt()]))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return dict.fromkeys(("shares", "decay", "bonus"), ParameterRule(decay=False))

    def channel_mixer(self) -> Mixer:
        return RwkvChannelMixer(self.config, self.width)

    @property
    def state_size(self) -> int:
        return 3 * self.width

    def initial_state(self, batch: int) -> State:
        zeros = self.decay.new_zeros(batch, self.width)
        return zeros, zeros.clone(), torch.full_like(zeros, EMPTY)

    def forward(
        self,
        u: Tensor,
        state: State | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        if index is not None and (len(u) + 1) * len(u) > index.numel():
            u, index = embedding(index, u), None  # pairs of symbols would cost more than they save
        batch = len(u) if index is None else len(index)
        before, m, s = state if state is not None else self.initial_state(batch)
        last = u[:, -1] if index is None else embedding(index[:, -1], u)
        fast = (mode or self.default_mode) == "sequential" and compiles(u)
        if fast and (index is None or state is None):
            (k, v, r), numbers = self._tables(u, before, index)
            y, (m, s) = gated_averages(k, v, r, numbers, self.decay.exp(), self.bonus, m, s)
            return self.out(y), (last, m, s)
        if index is None:
            k, v, r = self._project(u, shifted(u, before))
        else:
            k, v, r = self._look_up(u, index, None if state is None else before)
        rates = self.decay.exp(), self.bonus
        wkv, (m, s) = weighted_averages(k, v, *rates, (m, s), mode or self.default_mode)
        return self.out(torch.sigmoid(r) * wkv), (last, m, s)

    def _tables(self, u: Tensor, before: Tensor, index: Tensor | None) -> Tables:
        """Return tables k, v, r (N, D) and which of their rows each position reads, (B, T).

        Positions u (B, T, D) after `before` have a row each; symbols `index` of a table u (S, D),
        from the start of strings, one for each pair.
        """
        if index is not None:
            return self._pairs(u), pair_numbers(index, len(u))
        numbers = torch.arange(u.shape[0] * u.shape[1], device=u.device).view(u.shape[:2])
        return [x.flatten(0, 1) for x in self._project(u, shifted(u, before))], numbers

    def _project(self, z: Tensor, before: Tensor) -> list[Tensor]:
        """Return k, v, r (..., D) from positions z (..., D) and those before them."""
        layers, change = (self.key, self.value, self.receptance), z - before
        return [
            layer(torch.addcmul(before, change, mu))
            for mu, layer in zip(self.shares, layers, strict=True)
        ]

    def _look_up(self, table: Tensor, index: Tensor, before: Tensor | None) -> list[Tensor]:
        """Return k, v, r (B, T, D) of symbols (B, T): projections of every pair of symbols.

        Symbol S stands for the start of a string, unless `before` (B, D) came before it.
        """
        numbers = pair_numbers(index, len(table))
        picked = [rows(pair, numbers) for pair in self._pairs(table)]
        if before is None:
            return picked
        first = self._project(embedding(index[:, 0], table), before)
        joined = zip(first, picked, strict=True)
        return [torch.cat([x[:, None], p[:, 1:]], dim=1) for x, p in joined]

    def _pairs(self, table: Tensor) -> list[Tensor]:
        """Return k, v, r ((S + 1) S, D) of each symbol after each, and after none."""
        symbols = len(table)
        earlier = torch.cat([table, torch.zeros_like(table[:1])])
        return self._project(
            table.repeat(symbols + 1, 1), earlier.repeat_interleave(symbols, dim=0)
        )


def pair_numbers(index: Tensor, symbols: int) -> Tensor:
    """Return the number of the pair that ends at each of `index` (B, T); S before the first."""
    previous = torch.cat([torch.full_like(index[:, :1], symbols), index[:, :-1]], dim=1)
    return previous * symbols + index
