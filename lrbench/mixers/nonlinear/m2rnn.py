"""M2RNN: a non-linear recurrent network whose state is a matrix for each head.

Mishra et al. 2026, arXiv:2603.14360. Per head:

    H_t = f_t H_{t-1} + (1 - f_t) tanh(H_{t-1} W + k_t v_t^T),    y_t = W_o [q_t^T H_t]_heads

with q_t, k_t (K), v_t (V) linear in u_t and f_t = sigmoid(w u_t) one number a head.

Glossary
    project   q, k, v and w of all heads, no bias          W  recurrent  (h, V, V), N(0, 1)
    W_o       out, no bias                                  H  (h, K, V), zero at first

Not linear, so that there is no scan: a loop, whose backward is written out,

    P = H W + k v^T,  C = tanh(P),  dP = (1 - f) dH (1 - C^2),
    dH_{t-1} = f dH + dP W^T,  dW = H_{t-1}^T dP,  dk = dP v,  dv = dP^T k,  df = <dH, H_{t-1} - C>.

Differences, read off the released layer (open-lm-engine/lm-engine, commit 165efbe): its gate is
exp(-exp(a) softplus(w u_t + b)) with a and b of each head, W begins as the identity, D * v_t is
added to the output, which silu(g_t) multiplies and a norm scales before W_o, and a short
convolution may come before q, k and v. None of these is here. Heads share the model's width
(`key_size`, `value_size`), and each has its own q, k, v and W, where the released layer lets heads
share them; gradients are not clipped on their way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.base import Mixer
from lrbench.registry import register_mixer
from lrbench.scan.closed_form import ClosedForm, Tensors, one_by_one


@dataclass
class M2RNNConfig:
    """Settings of `m2rnn`; a head has `key_size` x `value_size` numbers, width / heads each.

    heads: how many states there are. key_size: K, numbers of a key; unset width / heads.
    value_size: V, numbers of a value; unset width / heads.
    """

    heads: int = 4
    key_size: int | None = None
    value_size: int | None = None

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.key_size", self.key_size, 1)
        at_least("model.mixer.value_size", self.value_size, 1)


@register_mixer(
    "m2rnn", M2RNNConfig, "M2RNN, matrix states, not linear (Mishra et al. 2026)", "bare"
)
class M2RNN(Mixer):
    """A gated tanh network of matrices (Mishra et al. 2026)."""

    def __init__(self, config: M2RNNConfig, width: int) -> None:
        super().__init__(config, width)
        heads = config.heads
        if width % heads and None in (config.key_size, config.value_size):
            raise ValueError(
                f"model.width of {width} cannot be shared by model.mixer.heads={heads}: change one"
                " of them, or set model.mixer.key_size and model.mixer.value_size"
            )
        self.keys = config.key_size or width // heads
        self.values = config.value_size or width // heads
        self.project = nn.Linear(width, heads * (2 * self.keys + self.values + 1), bias=False)
        self.recurrent = nn.Parameter(torch.randn(heads, self.values, self.values))
        self.out = nn.Linear(heads * self.values, width, bias=False)

    @property
    def state_size(self) -> int:
        heads: int = self.config.heads
        return heads * self.keys * self.values

    def initial_state(self, batch: int) -> Tensor:
        """Return H_0 = 0, (B, h, K, V)."""
        return self.recurrent.new_zeros(batch, self.config.heads, self.keys, self.values)

    def forward(
        self, u: Tensor, state: Tensor | None = None, mode: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        before = self.initial_state(len(u)) if state is None else state
        sizes = [self.keys, self.keys, self.values, 1]
        made = self.project(u).unflatten(-1, (self.config.heads, -1)).permute(1, 2, 0, 3)
        q, k, v, gate = made.split(sizes, -1)  # (T, h, B, ..)
        states = LOOP(self.recurrent, k, v, gate.sigmoid(), before.transpose(0, 1))
        y = (q[..., None] * states).sum(-2).permute(2, 0, 1, 3).flatten(2)
        return self.out(y), states[-1].transpose(0, 1)


def _forward(w: Tensor, k: Tensor, v: Tensor, f: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Return H and C, (T, h, B, K, V), for k (T, h, B, K), v (T, h, B, V) and f (T, h, B, 1)."""
    states = (k[..., None] * v[..., None, :]).contiguous()
    candidates = torch.empty_like(states)
    state, gates = before, f[..., None]
    for out, candidate, gate in zip(states, candidates, gates, strict=True):
        torch.add(out, _product(state, w), out=candidate).tanh_()
        state = torch.lerp(candidate, state, gate.expand_as(state), out=out)
    return states, candidates


def _backward(
    w: Tensor,
    k: Tensor,
    v: Tensor,
    f: Tensor,
    before: Tensor,
    states: Tensor,
    candidates: Tensor,
    gradient: Tensor,
) -> Tensors:
    earlier = torch.cat([before[None], states[:-1]])
    slopes, adjoints = 1 - candidates.square(), gradient.clone()
    gates, carried = f[..., None], torch.zeros_like(before)
    for t in range(len(adjoints) - 1, -1, -1):
        adjoint = adjoints[t].add_(carried)
        slope = slopes[t].mul_(adjoint).mul_(1 - gates[t])  # dP, kept for all positions
        carried = gates[t] * adjoint + _product(slope, w.mT)
    dk = (slopes * v[..., None, :]).sum(-1)
    dv = (slopes * k[..., None]).sum(-2)
    df = (adjoints * (earlier - candidates)).sum((-2, -1))[..., None]
    left, right = (x.transpose(0, 1).flatten(1, 3) for x in (earlier, slopes))
    dw = left.mT @ right
    return dw, dk, dv, df, carried


def _product(x: Tensor, w: Tensor) -> Tensor:
    """Return x W, (h, B, K, V), of each head: one product a head."""
    made: Tensor = (x.flatten(1, 2) @ w).view(x.shape)
    return made


LOOP = ClosedForm(_forward, _backward, one_by_one)
