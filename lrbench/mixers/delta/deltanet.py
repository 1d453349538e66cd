"""DeltaNet, Gated DeltaNet, DeltaProduct and Gated DeltaProduct: one layer, four settings of it.

`deltanet`: Schlag, Irie & Schmidhuber, "Linear Transformers Are Secretly Fast Weight Programmers",
arXiv:2102.11174; Yang et al., arXiv:2406.06484. `gated_deltanet`: Yang, Kautz & Hatamizadeh,
arXiv:2412.06464. `deltaproduct`, `gated_deltaproduct`: Siems et al., arXiv:2502.10297. The range
[-1, 1]: Grazzi et al., arXiv:2411.12537. Per head:

    q, k_j, v_j = conv(W u_t), each with SiLU; k_j and q to length one; j = 1..n_h
    S <- a_t S;   for each j:  S <- S (I - beta_j k_j k_j^T) + beta_j v_j k_j^T
    y_t = W_o (RMSNorm(K^(-1/2) S q) * silu(W_g u_t))                        norm over one head

    beta = r sigmoid(W_b u_t),   a = exp(-exp(A_log) softplus(W_a u_t + dt))

Glossary
    n_h    householders   factors of a transition; 2 turn a plane, n_h move n_h + 1 points
    r      range          positive: 1, eigenvalues in [0, 1]; signed: 2, in [-1, 1]
    a      decay          none; scalar: one number a head; channel: one for each of K features of
                          a key, as in Kimi Delta Attention (arXiv:2510.26692)
    beta   erase          scalar; channel: S <- S - (S (b * k)) k^T + (w * v) k^T with b and w of K
                          and V numbers, as in Gated DeltaNet-2 (arXiv:2605.22791)
    conv   conv_size      a short causal convolution of q, k and v, or none at 0
    SiLU   qk_activation  of q and k: silu or identity. v always has it
    W_g    output_gate    off: y_t = W_o RMSNorm(..)
    silu   gate           of W_g u_t: silu; sigmoid: sigmoid(W_g u_t + b_g), as in KDA
    S_0    learn_x0       zero, or learnt from the identity

The state: S (H, V, K) and the last conv_size - 1 of W u. Modes: those of
`lrbench/scan/matrix/householder.py`.

Differences from flash-linear-attention: heads share the model's width (`key_size`, `value_size`),
where its gated layers have 6 of 256 x 512 numbers; weights are drawn as torch draws those of linear
maps; decays and gates for each channel come from one linear map, not from two of low rank. S_0 is
always zero there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from lrbench.checks import at_least, one_of, only_with, share
from lrbench.kernels.normalisation import unit_length
from lrbench.mixers.base import RANGES, STARTS, Mixer, ParameterRule
from lrbench.mixers.convolution import ACTIVATIONS, CausalConvolution
from lrbench.mixers.time_steps import time_bias
from lrbench.records import added
from lrbench.registry import register_mixer
from lrbench.scan.matrix.householder import MODES, HouseholderProducts, delta_rule

DECAYS = ("none", "scalar", "channel")
ERASES = ("scalar", "channel")
GATES: dict[str, Callable[[Tensor], Tensor]] = {"silu": silu, "sigmoid": torch.sigmoid}
EPSILON = 1e-5
STACK = "gpt_rms"
FIX = "set model.mixer.{}, or heads that divide it"

State = tuple[Tensor, Tensor]


@dataclass
class DeltaNetConfig:
    """Settings of `deltanet`; a head has `key_size` x `value_size` numbers, width / heads each.

    init: random, or exact, weights that are right by construction (lrbench/models/exact/).

    heads: how many states there are. key_size: K, numbers of a key; unset width / heads.
    value_size: V, numbers of a value; unset width / heads. householders: n_h, factors of a
    transition. range: of eigenvalues, positive [0, 1] or signed [-1, 1]. decay: whether a state
    decays: not, by a number a head (scalar), or by one for each feature of a key (channel). erase:
    beta is a number a head (scalar), or one for each feature (channel). conv_size: positions of the
    convolution of q, k and v; 0: none. qk_activation: what q and k go through. output_gate: whether
    the output is gated by the input. gate: what the gate goes through, silu or sigmoid (with a
    bias). learn_x0: whether the first state is learnt, not zero.
    """

    heads: int = 4
    key_size: int | None = None
    value_size: int | None = None
    householders: int = 1
    range: str = "positive"
    decay: str = "none"
    erase: str = "scalar"
    conv_size: int = 4
    qk_activation: str = "silu"
    output_gate: bool = False
    gate: str = added("silu")
    learn_x0: bool = False
    init: str = "random"

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.key_size", self.key_size, 1)
        at_least("model.mixer.value_size", self.value_size, 1)
        at_least("model.mixer.householders", self.householders, 1)
        at_least("model.mixer.conv_size", self.conv_size, 0)
        one_of("model.mixer.range", self.range, tuple(RANGES))
        one_of("model.mixer.decay", self.decay, DECAYS)
        one_of("model.mixer.erase", self.erase, ERASES)
        one_of("model.mixer.qk_activation", self.qk_activation, tuple(ACTIVATIONS))
        one_of("model.mixer.gate", self.gate, tuple(GATES))
        one_of("model.mixer.init", self.init, STARTS)
        own, other = type(self).gate, "model.mixer.output_gate=true"
        only_with("model.mixer.gate", self.gate, own, self.output_gate, other)


@dataclass
class GatedDeltaNetConfig(DeltaNetConfig):
    """Settings of `gated_deltanet`."""

    decay: str = "scalar"
    output_gate: bool = True


@dataclass
class DeltaProductConfig(DeltaNetConfig):
    """Settings of `deltaproduct`."""

    householders: int = 2
    range: str = "signed"


@dataclass
class GatedDeltaProductConfig(DeltaProductConfig):
    """Settings of `gated_deltaproduct`."""

    decay: str = "scalar"
    output_gate: bool = True


@register_mixer("deltanet", DeltaNetConfig, "DeltaNet (Yang et al. 2024)", STACK)
@register_mixer("gated_deltanet", GatedDeltaNetConfig, "Gated DeltaNet (Yang et al. 2025)", STACK)
@register_mixer("deltaproduct", DeltaProductConfig, "DeltaProduct (Siems et al. 2025)", STACK)
@register_mixer(
    "gated_deltaproduct", GatedDeltaProductConfig, "Gated DeltaProduct (Siems et al. 2025)", STACK
)
class DeltaNetMixer(Mixer):
    """A matrix that is read and written along keys, by the delta rule."""

    modes: ClassVar[tuple[str, ...]] = tuple(MODES)
    default_mode: ClassVar[str] = "chunked"

    def __init__(self, config: DeltaNetConfig, width: int) -> None:
        super().__init__(config, width)
        heads, count = config.heads, config.householders
        self.keys = config.key_size or share(width, heads, fix=FIX.format("key_size"))
        self.values = config.value_size or share(width, heads, fix=FIX.format("value_size"))
        self.parts = [heads * self.keys, heads * count * self.keys, heads * count * self.values]
        self.project = nn.Linear(width, sum(self.parts), bias=False)  # q, k, v
        size = config.conv_size
        self.convolution = CausalConvolution(sum(self.parts), size, "identity") if size else None
        channels = config.erase == "channel"
        strengths = count * (self.keys + self.values if channels else 1)
        self.strength = nn.Linear(width, heads * strengths, bias=False)  # beta, or b and w
        if config.decay != "none":
            rates = heads * (self.keys if config.decay == "channel" else 1)
            self.decay = nn.Linear(width, rates, bias=False)
            self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1e-3, 16).log())
            self.time_bias = nn.Parameter(time_bias(rates))
        if config.output_gate:
            self.gate = nn.Linear(width, heads * self.values, bias=config.gate == "sigmoid")
        self.norm = nn.RMSNorm(self.values, EPSILON)
        self.out = nn.Linear(heads * self.values, width, bias=False)
        shape = heads, self.values, self.keys
        start = torch.eye(*shape[1:]).repeat(heads, 1, 1) if config.learn_x0 else torch.zeros(shape)
        self.start = nn.Parameter(start, requires_grad=config.learn_x0)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        names = ("log_rate", "time_bias") if self.config.decay != "none" else ()
        return dict.fromkeys(names, ParameterRule(decay=False))

    @property
    def state_size(self) -> int:
        kept = 0 if self.convolution is None else self.convolution.state_size
        return self.start.numel() + kept

    def initial_state(self, batch: int) -> State:
        """Return S_0, (B, H, V, K), and what the convolution keeps, (B, conv_size - 1, F)."""
        if self.convolution is None:
            before = self.start.new_zeros(batch, 0, sum(self.parts))
        else:
            before = self.convolution.initial_state(batch)
        return self.start.expand(batch, *self.start.shape), before

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        s, before = self.initial_state(len(u)) if state is None else state
        transition, values, queries, after = self.coefficients(u, before)
        how = mode or self.default_mode
        y, s = delta_rule(transition, values, queries, s.flatten(0, 1), how)
        heads = self.config.heads
        y = self.norm(y.unflatten(0, (-1, heads)).transpose(1, 2))  # (B, T, H, V)
        if self.config.output_gate:
            y = y * GATES[self.config.gate](self.gate(u)).unflatten(-1, (heads, -1))
        return self.out(y.flatten(2)), (s.unflatten(0, (-1, heads)), after)

    def coefficients(
        self, u: Tensor, before: Tensor
    ) -> tuple[HouseholderProducts, Tensor, Tensor, Tensor]:
        """Return transitions, values and queries of B H strings, and what the convolution keeps."""
        made, after = self.project(u), before
        if self.convolution is not None:
            made, after = self.convolution(made, before)
        q, k, v = made.split(self.parts, -1)
        activation = ACTIVATIONS[self.config.qk_activation]
        q = unit_length(self._by_head(activation(q), self.keys)) * self.keys**-0.5
        k = unit_length(self._by_update(activation(k), self.keys))
        v = self._by_update(silu(v), self.values)
        strength = RANGES[self.config.range] * self.strength(u).sigmoid()
        if self.config.erase == "scalar":
            erase = write = self._by_update(strength, 1)
        else:
            sizes = [part.shape[-1] * self.config.householders for part in (k, v)]
            parts = strength.split([self.config.heads * size for size in sizes], -1)
            erase, write = (
                self._by_update(parts[0], self.keys),
                self._by_update(parts[1], self.values),
            )
        transition = HouseholderProducts(k, erase * k, self._log_decay(u))
        return transition, write * v, q, after

    def _log_decay(self, u: Tensor) -> Tensor | None:
        """Return log a, (B H, T, K) or (B H, T, 1), none above zero."""
        if self.config.decay == "none":
            return None
        heads = self.config.heads
        time = softplus(self.decay(u) + self.time_bias).unflatten(-1, (heads, -1))
        decay: Tensor = -self.log_rate.exp()[:, None] * time
        return decay.transpose(1, 2).flatten(0, 1)

    def _by_head(self, x: Tensor, size: int) -> Tensor:
        """Return x (B, T, H size) as (B H, T, size)."""
        heads: Tensor = x.unflatten(-1, (self.config.heads, size))
        return heads.transpose(1, 2).flatten(0, 1)

    def _by_update(self, x: Tensor, size: int) -> Tensor:
        """Return x (B, T, H n size) as (B H, T, n, size)."""
        count = self.config.householders
        updates: Tensor = self._by_head(x, count * size).unflatten(-1, (count, size))
        return updates
