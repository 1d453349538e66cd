"""Causal self-attention, the first sublayer of a decoder block; stack `gpt` adds the other.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762, section 3.2, with a causal mask:

    q_k, k_k, v_k = W u_k + c                     H heads of K = D / H features each
    y_k = W_o concat_h( sum_{j <= k} softmax_j(q_k . k_j / sqrt(K) + bias_kj) v_j ) + c_o

Positions (`positions`, see the file of that name): `nope` none, `sinusoidal`, `rope`, `alibi`, and
`randomised_sinusoidal`, `randomised_rope`, `randomised_alibi`.

Sinusoids are added to what the first layer reads, and to what it returns: so they get into the
residual stream, and later layers see them as if they had been added to the embedding.

The state is every key and value so far, so it grows with the string and `state_size` is None: this
is the one model here that does not run in constant memory. Weights start as torch's
MultiheadAttention does. Ruoss et al. 2023 and Deletang et al. 2023 use an encoder without a causal
mask: their numbers are not this model's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from lrbench.checks import at_least, one_of
from lrbench.mixers.attention.positions import (
    RandomPositions,
    distance_penalties,
    rotated,
    sinusoids,
)
from lrbench.mixers.base import Mixer
from lrbench.registry import register_mixer
from lrbench.scan.rows import rows

State = tuple[Tensor, Tensor]
RANDOMISED = "randomised_"
PLAIN = ("nope", "sinusoidal", "rope", "alibi")
KINDS = (*PLAIN, *(RANDOMISED + kind for kind in PLAIN[1:]))


@dataclass
class TransformerConfig:
    """Settings of `transformer`; the last two are of randomised positions alone.

    position_range: positions are numbers below it. longest: of the strings read when not training.
    """

    heads: int = 4
    positions: str = "rope"
    position_range: int = 2048
    longest: int = 512

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        one_of("model.mixer.positions", self.positions, KINDS)
        at_least("model.mixer.longest", self.longest, 1)
        at_least("model.mixer.position_range", self.position_range, 1)
        if self.longest > self.position_range:
            raise ValueError(
                f"model.mixer.longest={self.longest} positions cannot be drawn from"
                f" model.mixer.position_range={self.position_range}"
            )


@register_mixer(
    "transformer", TransformerConfig, "causal self-attention (Vaswani et al. 2017)", backbone="gpt"
)
class TransformerMixer(Mixer):
    """Multi-head causal self-attention with a cache of keys and values (Vaswani et al. 2017)."""

    modes: ClassVar[tuple[str, ...]] = ("parallel", "sequential")
    default_mode: ClassVar[str] = "parallel"
    takes_symbols: ClassVar[bool] = True

    def __init__(self, config: TransformerConfig, width: int) -> None:
        super().__init__(config, width)
        if width % config.heads:
            raise ValueError(
                f"model.mixer.heads={config.heads} does not divide a mixer's width of {width}"
            )
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        nn.init.zeros_(self.out.bias)
        self.kind = config.positions.removeprefix(RANDOMISED)
        self.random = (
            RandomPositions(config.position_range, config.longest)
            if config.positions.startswith(RANDOMISED)
            else None
        )
        self.place(0, 1)

    def place(self, layer: int, layers: int) -> None:
        """Note whether this is the first layer: sinusoids are added there alone."""
        self.adds = self.kind == "sinusoidal" and layer == 0

    @property
    def state_size(self) -> None:
        """Nothing to tell: 2 D numbers per position read so far."""
        return None

    def initial_state(self, batch: int) -> State:
        heads = self.config.heads
        empty = self.out.weight.new_empty(batch, heads, 0, self.width // heads)
        return empty, empty.clone()

    def forward(
        self,
        u: Tensor,
        state: State | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        projected = self.project(u) if index is None else rows(self.project(u), index)
        batch, length = projected.shape[:2]
        cache = self.initial_state(batch) if state is None else state
        before = cache[0].shape[2]
        positions = self._positions(before, length, u.device)
        added = sinusoids(positions[before:], self.width).to(projected.dtype) if self.adds else None
        if added is not None:
            projected = projected + linear(added, self.project.weight)
        parts = projected.unflatten(2, (3, self.config.heads, -1)).permute(2, 0, 3, 1, 4)
        if (mode or self.default_mode) == "sequential":
            mixed, cache = self._one_by_one(parts, cache, positions)
        else:
            mixed, cache = self._attend(parts, cache, positions)
        y = self.out(mixed.transpose(1, 2).flatten(2))
        return y if added is None else y + added, cache

    def _positions(self, before: int, length: int, device: torch.device) -> Tensor:
        """Return the positions (N) of `length` symbols and the `before` ones cached."""
        if self.random is None:
            return torch.arange(before + length, device=device)
        drawn: Tensor = self.random(before, length, self.training and torch.is_grad_enabled())
        return drawn

    def _one_by_one(self, parts: Tensor, cache: State, positions: Tensor) -> tuple[Tensor, State]:
        """Attend from one position after another, each seeing a cache that ends with it."""
        outputs, before = [], cache[0].shape[2]
        for k, part in enumerate(parts.split(1, dim=3)):
            y, cache = self._attend(part, cache, positions[: before + k + 1])
            outputs.append(y)
        return torch.cat(outputs, dim=2), cache

    def _attend(self, parts: Tensor, cache: State, positions: Tensor) -> tuple[Tensor, State]:
        """Return what queries gather, (B, H, T, K), and the longer cache.

        Args:
            parts: queries, keys and values of T positions, (3, B, H, T, K).
            cache: keys and values (B, H, N - T, K) of the positions before them.
            positions: of all N.
        """
        query, key, value = parts
        here = positions[len(positions) - query.shape[2] :]
        if self.kind == "rope":
            query, key = rotated(query, here), rotated(key, here)
        keys, values = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        q, k, v = (part.flatten(0, 1) for part in (query, keys, values))  # (B H, ..)
        bias = self._bias(here, positions).to(q.dtype).repeat(len(query), 1, 1)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=query.shape[3] ** -0.5)
        return (scores.softmax(-1) @ v).view_as(query), (keys, values)

    def _bias(self, here: Tensor, positions: Tensor) -> Tensor:
        """Return what is added to scores, (H, T, N): minus infinity for positions to come."""
        heads = self.config.heads
        if self.kind == "alibi":
            bias = distance_penalties(here, positions, heads)
        else:
            bias = torch.zeros(heads, len(here), len(positions), device=here.device)
        return bias.masked_fill(here[:, None] < positions, -torch.inf)
