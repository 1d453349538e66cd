"""sLSTM: an LSTM with exponential input gates, a normaliser, and recurrence within heads.

Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024 (arXiv:2405.04517), Sec. 2.2:

    (i, f)_t = W x'_t + R h_{t-1} + b,   (z, o)_t = W x_t + R h_{t-1} + b,   x' = silu(conv(x)) or x
    c_t = sigmoid(f) c_{t-1} + e^i tanh(z),   n_t = sigmoid(f) n_{t-1} + e^i
    h_t = sigmoid(o) c_t / n_t,               y_t = norm of each head of h_t

W and R map the d = D / H features of a head to the same head. The state is the average c / n and
the log of its weight n, which no string makes overflow (`cell.py`), beside h and what `conv` needs.

Glossary
    heads      H
    conv       a causal convolution of conv_size positions; 0: none
    weight     W (H, d, 4, d), gates in the order i, f, z, o;  recurrent  R, likewise
    bias       b (H, 4, d); of forget gate j of layer l, 5 - 12 (j / (d-1))^(0.3 + 1.3 l / (L-1)),
               from remembering to forgetting; otherwise zero, as R is

Differences: the paper allows f = e^f; the released code, and this, have a sigmoid. The code keeps
(h, c, n, m) and treats all strings of a batch as begun once any n is not zero; here that is decided
string by string. The paper's block also has a perceptron; here it belongs to the backbone `xlstm`.

Non-linear in the state, so there is no scan: a loop, compiled where it can be (0.05 ms a position
of 64 strings and 64 units).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from lrbench.checks import at_least, one_of, share
from lrbench.kernels.rows import rows
from lrbench.mixers.base import STARTS, Mixer
from lrbench.mixers.convolution import CausalConvolution
from lrbench.mixers.xlstm.cell import cell, empty_state, run
from lrbench.registry import register_mixer

State = tuple[Tensor, ...]
EPSILON = 1e-5
STAYS, LEAVES = 5.0, 12.0  # the forget gates' biases: the largest, and how far they go down


@dataclass
class SlstmConfig:
    """Settings of `slstm`.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    heads: units of one head do not see those of others. conv_size: positions of the convolution; 0:
    none.
    """

    heads: int = 4
    conv_size: int = 0
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.conv_size", self.conv_size, 0)
        one_of("model.mixer.init", self.init, STARTS)


def small(weight: Tensor, width: int) -> Tensor:
    """Draw `weight` from N(0, 2 / (5 D)), in place (Nguyen & Salazar 2019, "small init")."""
    return nn.init.normal_(weight, std=(2 / (5 * width)) ** 0.5)


class HeadNorm(nn.Module):
    """Layer normalisation of each head by itself, with a gain for each feature and no bias."""

    def __init__(self, heads: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, units))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., H, d) to the normal heads side by side, (..., H d)."""
        return (layer_norm(x, x.shape[-1:], eps=EPSILON) * self.weight).flatten(-2)


@register_mixer("slstm", SlstmConfig, "sLSTM (Beck et al. 2024)", backbone="xlstm")
class SlstmMixer(Mixer):
    """LSTM with exponential gates and recurrence within heads (Beck et al. 2024)."""

    takes_symbols = True

    def __init__(self, config: SlstmConfig, width: int) -> None:
        super().__init__(config, width)
        self.heads, self.units = config.heads, share(width, config.heads)
        shape = self.heads, self.units, 4, self.units
        self.weight = nn.Parameter(small(torch.empty(shape), width))
        self.recurrent = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(self.heads, 4, self.units))
        self.norm = HeadNorm(self.heads, self.units)
        size = config.conv_size
        self.conv = CausalConvolution(width, size, bias=True) if size else None
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Set the forget gates' biases: in deeper layers more units remember."""
        rank = torch.arange(self.units, dtype=self.bias.dtype) / max(1, self.units - 1)
        power = 0.3 + 1.3 * layer / max(1, layers - 1)
        self.bias[:, 1] = (STAYS - LEAVES * rank**power).to(self.bias.device)

    @property
    def state_size(self) -> int:
        return 3 * self.width + (self.conv.state_size if self.conv else 0)

    def initial_state(self, batch: int) -> State:
        state = empty_state(self.weight, batch, self.heads, self.units)
        return (*state, self.conv.initial_state(batch)) if self.conv else state

    def forward(
        self,
        u: Tensor,
        state: State | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        kept: State = ()
        if index is not None and self.conv is None:
            drive = rows(self._drive(u, u), index)
        else:
            u = u if index is None else rows(u, index)
            drive, kept = self._drives(u, state)
        state = self.initial_state(len(drive)) if state is None else state
        h, after = run(drive, self.recurrent, (state[0], state[1], state[2]))
        return self.norm(h), (*after, *kept)

    def step(self, u: Tensor, state: State) -> tuple[Tensor, State]:
        drive, kept = self._drives(u[:, None], state)
        h, after = cell(drive[:, 0], self.recurrent, (state[0], state[1], state[2]))
        return self.norm(h), (*after, *kept)

    def _drives(self, u: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return W x + b (B, T, H, 4, d) at u (B, T, D), and what the convolution keeps."""
        if self.conv is None:
            return self._drive(u, u), ()
        mixed, kept = self.conv(u, None if state is None else state[3])
        return self._drive(mixed, u), (kept,)

    def _drive(self, mixed: Tensor, u: Tensor) -> Tensor:
        """Return the gates' inputs (..., H, 4, d): of i and f from `mixed`, of z and o from u."""
        if mixed is u:
            return self._gates(u, self.weight) + self.bias
        parts = self._gates(mixed, self.weight[:, :, :2]), self._gates(u, self.weight[:, :, 2:])
        return torch.cat(parts, -2) + self.bias

    def _gates(self, u: Tensor, weight: Tensor) -> Tensor:
        within = u.unflatten(-1, (self.heads, self.units))
        return torch.einsum("...hk,hkgj->...hgj", within, weight)
