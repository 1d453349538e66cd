"""mLSTM: a matrix memory with exponential input gates and a normaliser.

Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024 (arXiv:2405.04517), Sec. 2.3:

    (x, z)_t = W_u u_t,   x' = silu(conv(x)),   q = W_q x',   k = W_k x' / sqrt(K),   v = W_v x
    (i, f)_t = W_g (q, sqrt(K) k, v)_t + b
    C_t = sigmoid(f) C_{t-1} + e^i v k^T,   n_t = sigmoid(f) n_{t-1} + e^i k
    h_t = C_t q_t / max(|n_t . q_t|, 1)
    y_t = W_d ((norm of each head of h_t + s x'_t) silu(z_t))

e^i overflows, so C and n are kept divided by e^m, the largest weight of what was written:

    m_t = max(log sigmoid(f) + m_{t-1}, i)
    [C; n]_t = a_t [C; n]_{t-1} + w_t [v; 1] k^T,   a_t = sigmoid(f) e^{m_{t-1} - m_t},
    h_t = C_t q_t / (max(|n_t . q_t|, e^{-m_t}) + eps),   w_t = e^{i - m_t}

a and w are at most one. This is the scan of Mamba-2 with a row more (`dual_scan`). h depends on m
through eps, which the released code adds to the divisor.

Glossary
    up, down     W_u, W_d; E = expand D features each of x and z, K = E / H of a head
    heads        H; i and f are one number a head
    query, key, value  W_q, W_k, W_v, blocks of block_size features: (E / block_size, out, in)
    gates        W_g, zero at the beginning; b of i from N(0, 0.01), of f from 3 to 6 by head
    conv         of conv_size positions; 0: none     skip  s (E), begins as one
    C, n, m      (H, K, K), (H, K), (H): the state, beside what `conv` needs

Modes: `sequential`, m and C position by position; `chunked`, m by doubling, C in chunks.

Differences: before a string m is nothing, as in the released parallel form; the released step
begins with m = 0, which changes h through eps alone. e^{-m} is held below e^80, where h is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from lrbench.checks import at_least, share
from lrbench.mixers.base import Mixer
from lrbench.mixers.convolution import CausalConvolution
from lrbench.mixers.xlstm.slstm import HeadNorm, small
from lrbench.registry import register_mixer
from lrbench.scan.diagonal.triples import EMPTY
from lrbench.scan.matrix.duality import MODES, Writes, dual_scan

EPSILON = 1e-6
HIGHEST = 80.0  # of -m: e^80 is far below the largest float32
REMEMBERS = 3.0, 6.0  # the forget gates' biases, of the first head and of the last

State = tuple[Tensor, Tensor, Tensor]


@dataclass
class MlstmConfig:
    """Settings of `mlstm`: `heads` matrices of (expand D / heads)^2 numbers.

    expand: features inside over the width. heads: which they are shared by, a matrix each.
    conv_size: positions of the convolution; 0: none. block_size: features that a block of W_q, W_k
    and W_v mixes.
    """

    expand: int = 2
    heads: int = 4
    conv_size: int = 4
    block_size: int = 4

    def __post_init__(self) -> None:
        at_least("model.mixer.expand", self.expand, 1)
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.conv_size", self.conv_size, 0)
        at_least("model.mixer.block_size", self.block_size, 1)


@register_mixer("mlstm", MlstmConfig, "mLSTM (Beck et al. 2024)", backbone="xlstm")
class MlstmMixer(Mixer):
    """Matrix memory with exponential gates, between two projections (Beck et al. 2024)."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunked"

    def __init__(self, config: MlstmConfig, width: int) -> None:
        super().__init__(config, width)
        name = "model.mixer.expand * model.width"
        inner = config.expand * width
        self.heads, self.units = config.heads, share(inner, config.heads, name)
        size, block = config.conv_size, config.block_size
        if inner % block:
            raise ValueError(
                f"{name} of {inner} is no multiple of model.mixer.block_size={block};"
                " choose a block_size that divides it"
            )
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.conv = CausalConvolution(inner, size, bias=True) if size else None
        self.query, self.key, self.value = (
            nn.Parameter(small(torch.empty(inner // block, block, block), width)) for _ in range(3)
        )
        self.gates = nn.Linear(3 * inner, 2 * config.heads)
        self.skip = nn.Parameter(torch.ones(inner))
        self.norm = HeadNorm(self.heads, self.units)
        self.down = nn.Linear(inner, width, bias=False)
        small(self.up.weight, width)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            self.gates.bias[: self.heads].normal_(std=0.1)
            self.gates.bias[self.heads :] = torch.linspace(*REMEMBERS, self.heads)
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Draw W_d from N(0, 4 / (L^2 D)): the more layers, the less each adds."""
        nn.init.normal_(self.down.weight, std=2 / layers / self.width**0.5)

    @property
    def state_size(self) -> int:
        memory = self.heads * ((self.units + 1) * self.units + 1)
        return memory + (self.conv.state_size if self.conv else 0)

    def initial_state(self, batch: int) -> State:
        """Return C over n, (B, H, K + 1, K), m (B, H) and what the convolution keeps."""
        zeros = self.skip.new_zeros(batch, self.heads, self.units + 1, self.units)
        kept = self.conv.initial_state(batch) if self.conv else zeros.new_zeros(batch, 0, 0)
        return zeros, zeros.new_full((batch, self.heads), EMPTY), kept

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        memory, before, kept = self.initial_state(len(u)) if state is None else state
        x, z = self.up(u).chunk(2, -1)
        mixed, kept = (silu(x), kept) if self.conv is None else self.conv(x, kept)
        q, k, v = _blocks(mixed, self.query), _blocks(mixed, self.key), _blocks(x, self.value)
        inputs, forgets = self.gates(torch.cat([q, k, v], -1)).chunk(2, -1)
        q, k, v = (part.unflatten(-1, (self.heads, self.units)) for part in (q, k, v))
        h, memory, last = matrix_memory(
            (q, k * self.units**-0.5, v),
            (inputs, logsigmoid(forgets)),
            (memory, before),
            mode or self.default_mode,
        )
        y: Tensor = self.down((self.norm(h) + self.skip * mixed) * silu(z))
        return y, (memory, last, kept)


def matrix_memory(
    read: tuple[Tensor, Tensor, Tensor],
    gates: tuple[Tensor, Tensor],
    state: tuple[Tensor, Tensor],
    mode: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return h (B, T, H, V), and C over n (B, H, V + 1, K) and m (B, H) after the last position.

    Args:
        read: q, k (B, T, H, K), v (B, T, H, V).
        gates: i and log f, (B, T, H).
        state: C over n and m, before.
        mode: a name in MODES.

    Raises UserError for another mode.
    """
    (q, k, v), (inputs, log_forgets), (memory, before) = read, gates, state
    largest = _largest_by_turns if mode == "sequential" else largest_weights
    m = largest(log_forgets, inputs, before)
    earlier = torch.cat([before[:, None], m[:, :-1]], 1)
    decays, weights = (log_forgets + earlier - m).exp(), (inputs - m).exp()
    values = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    y, memory = dual_scan(decays, Writes(k, values, weights), q, memory, mode)
    above, below = y.split([v.shape[-1], 1], -1)
    floor = (-m).clamp(max=HIGHEST).exp()[..., None]
    return above / (torch.maximum(below.abs(), floor) + EPSILON), memory, m[:, -1]


def largest_weights(log_forgets: Tensor, inputs: Tensor, before: Tensor) -> Tensor:
    """Return m_t = max(log f_t + m_{t-1}, i_t), (B, T, H), from m_0 (B, H), by doubling.

    Maxima over 1, 2, 4, .. positions. Sums of log f from the beginning on would be shorter; their
    rounding error grows with the string.
    """
    first = torch.maximum(log_forgets[:, :1] + before[:, None], inputs[:, :1])
    m, total, reach = torch.cat([first, inputs[:, 1:]], 1), log_forgets, 1
    while reach < m.shape[1]:
        longer = torch.maximum(m[:, reach:], total[:, reach:] + m[:, :-reach])
        m = torch.cat([m[:, :reach], longer], 1)
        total = torch.cat([total[:, :reach], total[:, reach:] + total[:, :-reach]], 1)
        reach *= 2
    return m


def _largest_by_turns(log_forgets: Tensor, inputs: Tensor, before: Tensor) -> Tensor:
    every = []
    for forget, taken in zip(log_forgets.unbind(1), inputs.unbind(1), strict=True):
        before = torch.maximum(forget + before, taken)
        every.append(before)
    return torch.stack(every, 1)


def _blocks(x: Tensor, weight: Tensor) -> Tensor:
    """Return x (.., E) by the block-diagonal matrix of blocks `weight` (E / b, b, b)."""
    within = x.unflatten(-1, (len(weight), -1))
    return torch.einsum("...ni,noi->...no", within, weight).flatten(-2)
