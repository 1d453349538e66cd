"""The parallel Legendre memory unit: a fixed linear memory between two dense layers.

Chilkuri & Eliasmith, "Parallelizing Legendre Memory Unit Training", arXiv:2102.11417, Eq. 18-20:

    u_t = f1(U_x x_t + b_u)
    M_t = A_bar M_{t-1} + B_bar u_t^T           each of the d_u channels drives its own copy
    o_t = f2(W_m m_t + W_x x_t + b_o)           m_t: M_t as one vector

Glossary
    x, o              input, output   (B, T, D) and (B, T, d_o), d_o = `outputs` or D
    u                 encoded         (B, T, d_u), d_u = `channels`
    M                 state           (B, d_u, d), d = `order`; see `delay_network.py`
    A_bar, B_bar      frozen          the delay network's, for a window of `theta` positions
    U_x, b_u          encoder
    W_m, W_x, b_o     memory, skip, bias

Modes `lti` (Eq. 19), `matmul` (24), `fft` (26) and `chunk` (ours) compute the same for every
position: `delay_modes.py`. On CPU `chunk` is the quickest at the sizes of tables and
of Mackey-Glass, `fft` for d of several hundred. Where one answer a string is wanted, `last`
computes m_n = H [u_n .. u_1]^T alone: mode `final`, Eq. 25.

Left open by the paper: f1, f2 (here: identity, ReLU), initial values (here Keras's, with which the
paper was written: Glorot uniform, biases zero), and a carried state (here: exact in every mode).
M is kept channel by channel, which is a permutation of the paper's columns of W_m.
With d = 64 and theta = 64, the defaults, the memory is as large as the width of other models here
and its window longer than the strings they are trained on. theta should not be far below d.
The eigenvalues of A_bar lie inside the unit circle: this is a window of about theta positions that
fades, and no function of longer strings that needs all their symbols can be learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import Mixer
from lrbench.mixers.legendre.delay_modes import MODES
from lrbench.mixers.legendre.delay_network import DelayNetwork
from lrbench.mixers.legendre.delay_readout import DelayReadout
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, apply
from lrbench.registry import register_mixer

FINAL = "final"


@dataclass
class LMUParallelConfig:
    """Settings of `lmu_parallel`.

    order: d, numbers of a memory. theta: the window of a memory, in positions. channels: d_u, how
    many memories there are. outputs: numbers of the output; unset the width. f1: what is applied to
    what goes into the memory. f2: what is applied to the output.
    """

    order: int = 64
    theta: float = 64.0
    channels: int = 1
    outputs: int | None = None
    f1: str = "identity"
    f2: str = "relu"

    def __post_init__(self) -> None:
        at_least("model.mixer.order", self.order, 1)
        at_least("model.mixer.theta", self.theta, 1)
        at_least("model.mixer.channels", self.channels, 1)
        at_least("model.mixer.outputs", self.outputs, 1)
        one_of("model.mixer.f1", self.f1, list(NONLINEARITIES))
        one_of("model.mixer.f2", self.f2, list(NONLINEARITIES))


class DelayMixer(Mixer):
    """Encoded inputs u (B, T, d_u), a delay network for each channel, and a dense layer of it."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunk"
    tolerance: ClassVar[float] = 1e-8  # of the Fourier transform; the others keep 1e-9
    rounds = False

    def __init__(
        self, width: int, order: int, theta: float, channels: int, outputs: int | None, f2: str
    ) -> None:
        super().__init__(None, width)
        self.network = DelayNetwork(order, theta)
        self.channels = channels
        self.f2 = f2
        self.memory = nn.Linear(channels * order, outputs or width, bias=False)
        self.skip = nn.Linear(width, outputs or width)
        initialise(self.memory, self.skip)

    def encode(self, x: Tensor) -> Tensor:
        """Return u (B, T, d_u) of x (B, T, D)."""
        raise NotImplementedError

    @property
    def out_width(self) -> int:
        return self.memory.out_features

    @property
    def state_size(self) -> int:
        return self.memory.in_features

    def initial_state(self, batch: int) -> Tensor:
        return self.memory.weight.new_zeros(batch, self.channels, self.network.order)

    def forward(
        self, u: Tensor, state: Tensor | None = None, mode: str | None = None
    ) -> tuple[Tensor, Tensor]:
        way = MODES[mode or self.default_mode](self.network, self.memory.weight, u.shape[1])
        encoded = self.encode(u)
        start = self.initial_state(len(u)) if state is None else state
        weights = self.memory.weight, self.skip.weight, self.skip.bias
        y = DelayReadout(way, self.f2, fresh=state is None)(encoded, u, start, *weights)
        return y, self._final(encoded, state)

    def last(
        self, u: Tensor, state: Tensor | None = None, mode: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return y (B, d_o) at the last position and the state after it.

        Mode `final`, the default, computes no other position: Eq. 25.
        """
        if mode not in (None, FINAL):
            return super().last(u, state, mode)
        after = self._final(self.encode(u), state)
        return apply(self.f2, self.memory(after.flatten(1)) + self.skip(u[:, -1])), after

    def _final(self, encoded: Tensor, state: Tensor | None) -> Tensor:
        """Return M_n (B, d_u, d): Eq. 25, and what is left of a carried state."""
        length = encoded.shape[1]
        response = self.network.response(length, encoded).flip(0)
        flat = encoded.transpose(1, 2).flatten(0, 1) @ response
        after = flat.view(len(encoded), self.channels, -1)
        return after if state is None else after + self.network.fade(state, length)


@register_mixer(
    "lmu_parallel",
    LMUParallelConfig,
    "parallel LMU (Chilkuri & Eliasmith 2021, Eq. 18-26)",
    backbone="bare",
)
class LMUParallel(DelayMixer):
    """Parallel Legendre memory unit (Chilkuri & Eliasmith 2021, Eq. 18-26)."""

    def __init__(self, config: LMUParallelConfig, width: int) -> None:
        super().__init__(
            width, config.order, config.theta, config.channels, config.outputs, config.f2
        )
        self.config = config
        self.encoder = nn.Linear(width, config.channels)
        initialise(self.encoder)

    def encode(self, x: Tensor) -> Tensor:
        return apply(self.config.f1, self.encoder(x))


@torch.no_grad()
def initialise(*layers: nn.Linear) -> None:
    """Draw weights from Glorot's uniform distribution and set biases to zero, as Keras does."""
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
