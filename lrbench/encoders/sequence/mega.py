"""MEGA (`mega`): gated attention over moving averages.

Ma et al. 2023 (arXiv:2209.10655), as Ray Chowdhury & Caragea 2023 (arXiv:2311.04449) use it on
ListOps and logic: six layers with attention over the whole string. A layer is

    m = drop(silu(EMA(x)))                                     (`MovingAverage`)
    (u, (z, r), c) = m W + b,   u = sigmoid(u),  z, r = silu(z, r),   v = silu(W_v x)
    A = softmax(q k' / sqrt(z) + bias_{j-i}),   q = z gamma_0 + beta_0,  k = z gamma_1 + beta_1
    g = drop(silu(c + W_h (r (A v)))),   x <- LN(x + u (g - x)),
    x <- LN(x + drop(W_2 silu(W_1 x)))

with dropout of the inputs and the mean over valid positions at the end. Widths: d = 80, z = 64,
r, v and the hidden layer 160.

There is one bias for each distance, 2 * 5000 - 1 in all, so no string may be longer. Strings are
read in groups of similar length, each padded to its longest: batches are not sorted by length, and
most of one would be padding. `reference` reads a batch as it is.

EMA is sixteen damped exponential averages a feature, from both ends of a string, with
p = sigmoid(delta) and q = 1 - p sigmoid(alpha):

    K_t = sum_n p_n beta_n gamma_n q_n^t / sqrt(16),      K' likewise, with numbers of its own
    y_t = sum_{s <= t} K_{t-s} x_s + sum_{s >= t} K'_{s-t} x_s + omega x_t
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder, dropout, lengths_of
from lrbench.encoders.sequence.two_sided import two_sided
from lrbench.errors import UserError
from lrbench.kernels.normalisation import LayerNorm
from lrbench.registry import register_encoder
from lrbench.scan.time_invariant.convolution import channels_first, channels_last

FIRST = 0.02  # deviation of first weights
SHORT, RATIO = 16, 1.4  # strings up to SHORT, or within RATIO of each other, are read together


@dataclass
class MegaConfig:
    """Settings of `mega`; the framework's width is 80 in the paper.

    shared: z, features of queries and keys. hidden: of values, gates and feed-forward layers.
    longest: of any string; there are twice as many biases.

    layers: how many there are, one above another. dropout: of the inputs and inside layers.
    """

    layers: int = 6
    shared: int = 64
    hidden: int = 160
    longest: int = 5000
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for key in ("layers", "shared", "hidden", "longest"):
            at_least(f"model.encoder.{key}", getattr(self, key), 1)
        fraction("model.encoder.dropout", self.dropout)


@register_encoder("mega", MegaConfig, "gated attention over moving averages (Ma et al. 2023)")
class Mega(Encoder):
    """Moving-average equipped gated attention (Ma et al. 2023)."""

    config: MegaConfig
    head = "linear"
    padding = 1e-8
    padding_reason = "convolutions of another length round differently"

    def __init__(self, config: MegaConfig, width: int) -> None:
        super().__init__(config, width)
        self.layers = nn.ModuleList(MegaLayer(config, width) for _ in range(config.layers))

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        lengths = lengths_of(mask)
        self._check(max(lengths))
        whole = [list(range(len(x)))]
        groups = groups_of(lengths) if x.device.type == "cpu" else whole
        results = []
        for group in groups:
            rows = torch.tensor(group, device=x.device)
            longest = max(lengths[row] for row in group)
            some = x[:, :longest].index_select(0, rows)
            results.append(self._read(some, mask[:, :longest].index_select(0, rows), generator))
        order = torch.tensor([row for group in groups for row in group], device=x.device)
        result = torch.cat(results)
        return torch.empty_like(result).index_copy(0, order, result)

    def reference(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what `forward` does without dropout, on the batch as it is padded."""
        return self._read(x, mask, None)

    def _read(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> Tensor:
        x = dropout(torch.where(mask[..., None], x, 0), self.config.dropout, generator)
        for layer in self.layers:
            x = layer(x, mask, generator)
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def _check(self, length: int) -> None:
        if length > self.config.longest:
            raise UserError(
                f"mega: a string of {length} symbols; it has biases for up to"
                f" {self.config.longest}\nset model.encoder.longest before training, or leave"
                " longer splits out (protocol.test_splits)"
            )


class MegaLayer(nn.Module):
    """Averages, gated attention and a feed-forward layer."""

    def __init__(self, config: MegaConfig, width: int) -> None:
        super().__init__()
        shared, hidden = config.shared, config.hidden
        self.sizes = width, shared, hidden, width
        self.average = MovingAverage(width)
        self.value = projection(width, hidden)
        self.gates = projection(width, sum(self.sizes))
        self.scale = nn.Parameter(torch.randn(2, shared) * FIRST)
        self.shift = nn.Parameter(torch.zeros(2, shared))
        self.bias = nn.Parameter(torch.randn(2 * config.longest - 1) * FIRST)
        self.output = projection(hidden, width)
        self.norm = LayerNorm(width)
        self.first, self.second = projection(width, hidden), projection(hidden, width)
        self.last_norm = LayerNorm(width)
        self.dropout = config.dropout

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map x (N, S, d) with mask (N, S) to (N, S, d)."""
        value = silu(self.value(x))
        averaged = self.average(x * mask[..., None])
        gates = self.gates(dropout(silu(averaged), self.dropout, generator))
        update, shared, reset, candidate = gates.split(self.sizes, 2)
        attended = self._attention(silu(shared), mask) @ value
        mixed = silu(candidate + self.output(attended * silu(reset)))
        mixed = dropout(mixed, self.dropout, generator)
        x = self.norm(torch.lerp(x, mixed, update.sigmoid()))
        grown = self.second(silu(self.first(x)))
        y: Tensor = self.last_norm(x + dropout(grown, self.dropout, generator))
        return y

    def _attention(self, shared: Tensor, mask: Tensor) -> Tensor:
        """Return A (N, S, S) from z (N, S, z)."""
        query, key = (
            torch.addcmul(shift, shared, scale)
            for scale, shift in zip(self.scale, self.shift, strict=True)
        )
        scores = query @ key.mT / math.sqrt(shared.shape[2]) + self._biases(mask.shape[1])
        return scores.masked_fill(~mask[:, None], -math.inf).softmax(2)

    def _biases(self, length: int) -> Tensor:
        """Return the bias of each distance j - i as (S, S), row i, column j."""
        middle = len(self.bias) // 2
        near = self.bias[middle - length + 1 : middle + length]
        return near.unfold(0, length, 1).flip(0)


def projection(features: int, results: int) -> nn.Linear:
    """Return a layer with first weights N(0, 0.02^2) and biases 0."""
    layer = nn.Linear(features, results)
    nn.init.normal_(layer.weight, std=FIRST)
    nn.init.zeros_(layer.bias)
    return layer


def groups_of(lengths: list[int]) -> list[list[int]]:
    """Return groups of strings of similar length, shortest first, of at least 1 string each."""
    groups: list[list[int]] = []
    limit = 0.0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not groups or lengths[row] > limit:
            groups.append([])
            limit = max(SHORT, RATIO * lengths[row])
        groups[-1].append(row)
    return groups


AVERAGES = 16


class MovingAverage(nn.Module):
    """Two-sided exponential averages of d features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        shape = 2 * width, AVERAGES
        signs = torch.tensor([1.0, -1.0]).repeat(AVERAGES // 2)
        self.delta = nn.Parameter(torch.randn(shape) * 0.2)
        self.alpha = nn.Parameter(torch.randn(shape) * 0.2)
        self.beta = nn.Parameter(torch.randn(shape) * 0.02 + signs)
        self.gamma = nn.Parameter(torch.randn(shape))
        self.omega = nn.Parameter(torch.randn(width))

    def kernels(self, length: int) -> tuple[Tensor, Tensor]:
        """Return K and K' (d, length)."""
        p = self.delta.sigmoid()
        log_q = torch.log1p(-p * self.alpha.sigmoid())
        weights = p * self.beta * self.gamma / math.sqrt(AVERAGES)
        times = torch.arange(length, dtype=p.dtype, device=p.device)
        powers = (log_q[..., None] * times).exp()
        both = (weights[:, None] @ powers).squeeze(1)
        ahead, behind = both.chunk(2)
        return ahead, behind

    def forward(self, x: Tensor) -> Tensor:
        """Map x (N, S, d), zero at padding, to y (N, S, d)."""
        ahead, behind = self.kernels(x.shape[1])
        past = torch.cat([ahead[:, :1] + behind[:, :1], ahead[:, 1:]], 1)
        y = two_sided(channels_first(x), past, pad(behind[:, 1:], (0, 1)))
        return torch.addcmul(channels_last(y), x, self.omega)
