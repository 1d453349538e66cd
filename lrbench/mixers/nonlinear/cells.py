"""Non-linear recurrent networks for comparison: one layer of torch's own cells.

    rnn    h_k = f(W u_k + b + U h_{k-1} + c),  f = tanh or relu      (Elman 1990)
    gru    r_k, z_k = sigmoid(..),  n_k = tanh(W u_k + b + r_k (U h_{k-1} + c))
           h_k = (1 - z_k) n_k + z_k h_{k-1}                          (Cho et al. 2014)
    lstm   i_k, f_k, o_k = sigmoid(..),  g_k = tanh(..)
           c_k = f_k c_{k-1} + i_k g_k,  h_k = o_k tanh(c_k)          (Gers et al. 2000)

The output is y_k = h_k of `units` numbers (D unless set), and so is the state, twice that for
`lstm`; it starts at zero. Several layers are stacked by the backbone.

Differences: torch's GRU resets after the matrix U, not before it as in Cho et al.; where z_k = 1 it
keeps h_{k-1}, as they do (elsewhere z is often 1 minus that). Weights are torch's, uniform in
+-1/sqrt(units); `forget_bias` replaces the two biases of the LSTM's forget gate by one of that
value (Jozefowicz et al. 2015 advise 1).

Non-linear in the state, so there is no scan. Whole strings run in torch's fused kernels (cuDNN on
a GPU), which `torch.func.vmap` cannot batch: seeds are trained one by one. A step runs in the
cells, another code of torch's, so that comparing the two says something; so do strings of training
with `noise` on the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from lrbench.checks import at_least, between, one_of
from lrbench.mixers.base import STARTS
from lrbench.mixers.nonlinear.noise import NoisyMixer
from lrbench.records import added
from lrbench.registry import register_mixer

NONLINEARITIES = ("tanh", "relu")
LARGEST_BIAS = 100


@dataclass
class RnnConfig:
    """Settings of `rnn`.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    units: numbers of the state; unset the width. nonlinearity: f. noise: s.d. of Gaussian noise on
    the state before each symbol, in training alone.
    """

    units: int | None = None
    nonlinearity: str = "tanh"
    noise: float = added(0.0)
    init: str = added("random")

    def __post_init__(self) -> None:
        at_least("model.mixer.noise", self.noise, 0)
        at_least("model.mixer.units", self.units, 1)
        one_of("model.mixer.nonlinearity", self.nonlinearity, NONLINEARITIES)
        one_of("model.mixer.init", self.init, STARTS)


@dataclass
class GruConfig:
    """Settings of `gru`.

    units: numbers of the state; unset the width. noise: s.d. of Gaussian noise on the state before
    each symbol, in training alone.
    """

    units: int | None = None
    noise: float = added(0.0)

    def __post_init__(self) -> None:
        at_least("model.mixer.noise", self.noise, 0)
        at_least("model.mixer.units", self.units, 1)


@dataclass
class LstmConfig:
    """Settings of `lstm`.

    units: numbers of h and of c; unset the width. forget_bias: of the forget gate at first; unset
    random. noise: s.d. of Gaussian noise on both parts of the state before each symbol, in training
    alone.
    """

    units: int | None = None
    forget_bias: float | None = None
    noise: float = added(0.0)

    def __post_init__(self) -> None:
        at_least("model.mixer.noise", self.noise, 0)
        at_least("model.mixer.units", self.units, 1)
        between("model.mixer.forget_bias", self.forget_bias, -LARGEST_BIAS, LARGEST_BIAS)


class CellMixer(NoisyMixer):
    """One layer of a torch recurrent network with N units and a state h (B, N)."""

    vmap: ClassVar[bool] = False
    network: nn.RNNBase

    @property
    def saturates(self) -> bool:
        return getattr(self.config, "nonlinearity", "tanh") == "tanh"

    @property
    def out_width(self) -> int:
        return self.network.hidden_size

    @property
    def state_size(self) -> int:
        return self.network.hidden_size

    def initial_state(self, batch: int) -> Any:
        return self.weights()[0].new_zeros(batch, self.network.hidden_size)

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        start = self.initial_state(len(u)) if state is None else state
        if self.noise is not None:
            return self.noisy_steps(u, start, self.noise)
        y, last = self.network(u, start[None])
        return y, last[0]

    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W, U, b, c, the gates stacked along the first axis."""
        w, m, b, c = self.network.parameters()
        return w, m, b, c


@register_mixer("rnn", RnnConfig, "torch.nn.RNN (Elman 1990)", backbone="bare")
class RnnMixer(CellMixer):
    """Elman network with tanh or ReLU (Elman 1990; torch.nn.RNN)."""

    def __init__(self, config: RnnConfig, width: int) -> None:
        super().__init__(config, width)
        units, kind = config.units or width, config.nonlinearity
        self.network = nn.RNN(width, units, nonlinearity=kind, batch_first=True)

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        cell = torch.rnn_relu_cell if self.config.nonlinearity == "relu" else torch.rnn_tanh_cell
        h = cell(u, state, *self.weights())
        return h, h


class GatedCell(CellMixer):
    """A cell with a gate that multiplies what it carries: z of `gru`, f of `lstm`."""

    def keep_gate(self, u: Tensor, state: Any, y: Tensor) -> Tensor:
        """Return that gate, (B, T, N) in (0, 1), as it was when u (B, T, D) was read.

        state: the one before u, None at the start of strings. y (B, T, N): what was put out, h.
        Noise on the state is not in it.
        """
        start = self.initial_state(len(u)) if state is None else state
        h = start[0] if isinstance(start, tuple) else start
        before = torch.cat([h[:, None], y[:, :-1]], 1)
        second = slice(
            self.network.hidden_size, 2 * self.network.hidden_size
        )  # r, z, n; i, f, g, o
        w, m, b, c = (one[second] for one in self.weights())
        return torch.sigmoid(linear(u, w, b) + linear(before, m, c))


@register_mixer("gru", GruConfig, "torch.nn.GRU (Cho et al. 2014)", backbone="bare")
class GruMixer(GatedCell):
    """Gated recurrent unit, reset after the matrix (Cho et al. 2014; torch.nn.GRU)."""

    def __init__(self, config: GruConfig, width: int) -> None:
        super().__init__(config, width)
        self.network = nn.GRU(width, config.units or width, batch_first=True)

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.gru_cell(u, state, *self.weights())
        return h, h


@register_mixer(
    "lstm", LstmConfig, "torch.nn.LSTM (Hochreiter & Schmidhuber 1997)", backbone="bare"
)
class LstmMixer(GatedCell):
    """Long short-term memory with a state (h, c) (Hochreiter & Schmidhuber 1997; torch.nn.LSTM)."""

    def __init__(self, config: LstmConfig, width: int) -> None:
        super().__init__(config, width)
        units = config.units or width
        self.network = nn.LSTM(width, units, batch_first=True)
        if config.forget_bias is not None:
            forget = slice(units, 2 * units)  # torch stacks the gates i, f, g, o
            nn.init.constant_(self.weights()[2][forget], config.forget_bias)
            nn.init.zeros_(self.weights()[3][forget])

    @property
    def state_size(self) -> int:
        return 2 * self.network.hidden_size

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        zeros = super().initial_state(batch)
        return zeros, zeros.clone()

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        h, c = start = self.initial_state(len(u)) if state is None else state
        if self.noise is not None:
            return self.noisy_steps(u, start, self.noise)
        y, (h, c) = self.network(u, (h[None], c[None]))
        return y, (h[0], c[0])

    def step(self, u: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        h, c = torch.lstm_cell(u, state, *self.weights())
        return h, (h, c)
