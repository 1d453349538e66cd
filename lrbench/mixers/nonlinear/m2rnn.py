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

The released layer (open-lm-engine/lm-engine, commit 165efbe) has more around the same recurrence,
and so has `layer=released`, with D of each head and unit, and a, b of each head:

    (q, k, v) <- silu(conv(q, k, v)) where conv_size > 0,     f_t = exp(-e^a softplus(w u_t + b))
    y_t = W_o RMSNorm([(q_t^T H_t + D * v_t) * silu(g_t)]_heads),       g_t (V) linear in u_t too

    log_rate   a, e^a uniform in (0, 16)       time_bias  b, softplus(b) log-uniform in [0.001, 0.1]
    skip       D, begins as one                recurrent  begins as the identity

The compiled loops follow one head of one string over all its positions, with H in the first-level
cache and `wide` numbers of a value side by side; the backward follows H again first. Shapes there:
q, k (B, T, h, K), v, y (B, T, h, V), f (B, T, h), turned (h, V, V) is W^T.

Differences from it: heads share the model's width (`key_size`, `value_size`), and each has its own
q, k, v, g and W, where released heads may share them; linear maps are drawn as torch draws them;
gradients are not clipped on their way back through the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from lrbench.checks import at_least, one_of
from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled, part
from lrbench.kernels.elementary import sigmoid
from lrbench.kernels.lanes import (
    NARROWEST,
    add,
    every,
    fma,
    load,
    mul,
    side_by_side,
    store,
    sub,
    total,
    zero,
)
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.mixers.convolution import CausalConvolution
from lrbench.mixers.time_steps import time_bias
from lrbench.records import added
from lrbench.registry import register_mixer

LAYERS = ("equation", "released")
EPSILON = 1e-5  # of the norm
FASTEST = 16.0  # e^a as it begins, at most
State = Tensor | tuple[Tensor, Tensor]


@dataclass
class M2RNNConfig:
    """Settings of `m2rnn`; a head has `key_size` x `value_size` numbers, width / heads each.

    heads: how many states there are. key_size: K, numbers of a key; unset width / heads.
    value_size: V, numbers of a value; unset width / heads. layer: the paper's equation alone, or
    what the released code has around it. conv_size: positions of the convolution of q, k and v; 0:
    none.
    """

    heads: int = 4
    key_size: int | None = None
    value_size: int | None = None
    layer: str = added("equation")
    conv_size: int = added(0)

    def __post_init__(self) -> None:
        at_least("model.mixer.heads", self.heads, 1)
        at_least("model.mixer.key_size", self.key_size, 1)
        at_least("model.mixer.value_size", self.value_size, 1)
        one_of("model.mixer.layer", self.layer, LAYERS)
        at_least("model.mixer.conv_size", self.conv_size, 0)


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
        self.released = config.layer == "released"
        self.read = 2 * self.keys + self.values  # numbers of q, k and v
        more = 1 + (self.values if self.released else 0)  # of the two gates
        self.project = nn.Linear(width, heads * (self.read + more), bias=False)
        shape = heads, self.values, self.values
        begun = torch.eye(self.values).repeat(heads, 1, 1) if self.released else torch.randn(shape)
        self.recurrent = nn.Parameter(begun)
        self.out = nn.Linear(heads * self.values, width, bias=False)
        size = config.conv_size
        self.convolution = CausalConvolution(heads * self.read, size) if size else None
        if self.released:
            self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1e-3, FASTEST).log())
            self.time_bias = nn.Parameter(time_bias(heads))
            self.skip = nn.Parameter(torch.ones(heads, self.values))
            self.norm = nn.RMSNorm(heads * self.values, EPSILON)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        names = ("log_rate", "time_bias", "skip") if self.released else ()
        return dict.fromkeys(names, ParameterRule(decay=False))

    @property
    def state_size(self) -> int:
        heads: int = self.config.heads
        kept = 0 if self.convolution is None else self.convolution.state_size
        return heads * self.keys * self.values + kept

    def initial_state(self, batch: int) -> State:
        """Return H_0 = 0, (B, h, K, V), and what a convolution keeps, (B, conv_size - 1, F)."""
        start = self.recurrent.new_zeros(batch, self.config.heads, self.keys, self.values)
        if self.convolution is None:
            return start
        return start, self.convolution.initial_state(batch)

    def forward(
        self, u: Tensor, state: State | None = None, mode: str | None = None
    ) -> tuple[Tensor, State]:
        """Map u (B, T, D) to y (B, T, D) and the state after the last position."""
        given = self.initial_state(len(u)) if state is None else state
        before, seen = (given, None) if isinstance(given, Tensor) else given
        made = self.project(u).unflatten(-1, (self.config.heads, -1))  # (B, T, h, ..)
        read, gates = made[..., : self.read], made[..., self.read :]
        if self.convolution is not None:
            smooth, seen = self.convolution(read.flatten(2), seen)
            read = smooth.unflatten(-1, (self.config.heads, -1))
        q, k, v = read.split([self.keys, self.keys, self.values], -1)
        forget = self._forget(gates[..., :1])
        y, last = recur(self.recurrent, k, v, forget, q, before)
        if self.released:
            y = y + v * self.skip
            y = self.norm((y * silu(gates[..., 1:])).flatten(2))
        return self.out(y.flatten(2)), last if seen is None else (last, seen)

    def _forget(self, made: Tensor) -> Tensor:
        """Return f of w u (B, T, h, 1), between 0 and 1."""
        if not self.released:
            return made.sigmoid()
        rate = self.log_rate.exp()[:, None]
        return (-rate * softplus(made + self.time_bias[:, None])).exp()


def recur(
    w: Tensor, k: Tensor, v: Tensor, f: Tensor, q: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """Return q^T H (B, T, h, V) at all positions and the last H (B, h, K, V).

    W (h, V, V); k, q (B, T, h, K); v (B, T, h, V); f (B, T, h, 1); H before them (B, h, K, V).
    """
    wide, alike = side_by_side(v.shape[-1]), all(x.dtype == v.dtype for x in (w, k, f, q, before))
    if wide >= NARROWEST and v.numel() and alike and usable(v, "m2rnn", wide):
        result = COMPILED(w, k, v, f, q, before)
        y, last = result.tensor_split([v[0].numel()], 1)
        if not last.requires_grad:  # a view of the result would keep y in memory
            last = last.clone()
        return y.view(v.shape), last.view(before.shape)
    q, k, v, f = (x.permute(1, 2, 0, 3) for x in (q, k, v, f))  # positions first, then heads
    states = LOOP(w, k, v, f, before.transpose(0, 1))
    y = (q[..., None] * states).sum(-2)
    return y.permute(2, 0, 1, 3), states[-1].transpose(0, 1)


def _forward(w: Tensor, k: Tensor, v: Tensor, f: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Return H and C, (T, h, B, K, V), for k (T, h, B, K), v (T, h, B, V) and f (T, h, B, 1)."""
    states = (k[..., None] * v[..., None, :]).contiguous()
    candidates = torch.empty_like(states)
    state, gates = before, f[..., None]
    for out, candidate, gate in zip(states, candidates, gates, strict=True):
        torch.add(out, _product(state, w), out=candidate).tanh_()
        state = torch.lerp(candidate, state, gate.expand_as(state), out=out)
    return states, candidates


def _backward(*tensors: Tensor) -> Tensors:
    w, k, v, f, before, states, candidates, gradient = tensors
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


def _compiled_forward(
    w: Tensor, k: Tensor, v: Tensor, f: Tensor, q: Tensor, before: Tensor
) -> tuple[Tensor]:
    """Return y and the last H side by side, (B, T h V + h K V)."""
    outputs = v[0].numel()
    result = v.new_empty(len(v), outputs + before[0].numel())
    loop = forward_loop(side_by_side(v.shape[-1]), DTYPES[v.dtype])
    flat = (array(x).reshape(-1) for x in (k, f, q))
    loop(array(w), array(v), array(before), *flat, result.numpy())
    return (result,)


def _compiled_backward(
    w: Tensor, k: Tensor, v: Tensor, f: Tensor, q: Tensor, before: Tensor, gradient: Tensor
) -> Tensors:
    dy, dlast = gradient.tensor_split([v[0].numel()], 1)
    sums = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (w, k, v, f, q)]
    carried = dlast.reshape(before.shape).clone(memory_format=torch.contiguous_format)
    loop = backward_loop(side_by_side(v.shape[-1]), DTYPES[v.dtype])
    flat = (array(x).reshape(-1) for x in (k, f, q))
    made = (x.numpy() for x in sums)
    dw, dk, dv, df, dq = (x if n in (0, 2) else x.reshape(-1) for n, x in enumerate(made))
    loop(
        *(array(w), array(w.mT), array(v), array(before), *flat, array(dy).reshape(-1)),
        *(dw, dk, dv, df, dq, carried.numpy()),
    )
    return *sums, carried


COMPILED = ClosedForm(_compiled_forward, _compiled_backward, one_by_one, needs_result=False)


@part
def tanh(x):  # type: ignore[no-untyped-def]
    """Return tanh in each lane, within some units of the last place of 1, however small x is."""
    one = every(1.0, x)
    return sub(mul(every(2.0, x), sigmoid(add(x, x))), one)


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (w, v, H before, k, f, q; y and the last H, a row a string, to fill)."""

    @compiled(wide, dtype)
    def m2rnn_forward(w, v, before, k, f, q, result):  # type: ignore[no-untyped-def]
        strings, length, heads, values = v.shape
        keys = before.shape[2]
        size, of_outputs = keys * values, length * heads * values
        state = np.empty(2 * size, v.dtype)  # H before a position, and after it
        none = zero(load(v, 0, wide))
        for string in range(strings):
            for head in range(heads):
                at, old = (string * heads + head) * size, 0
                behind = string * heads * size  # the last H of the strings before, in the result
                for n in range(0, size, wide):
                    store(state, n, load(before, at + n, wide))
                for t in range(length):
                    place, new = (string * length + t) * heads + head, size - old
                    gate = every(f[place], none)
                    for j in range(0, values, wide):
                        store(result, behind + place * values + j, none)
                    for key in range(keys):
                        row, asked = old + key * values, every(q[place * keys + key], none)
                        strength = every(k[place * keys + key], none)
                        for j in range(0, values, wide):
                            out, weight = place * values + j, head * values * values + j
                            even, odd = mul(strength, load(v, out, wide)), none
                            for i in range(row, row + values, 2):
                                even = fma(every(state[i], none), load(w, weight, wide), even)
                                weight += values
                                odd = fma(every(state[i + 1], none), load(w, weight, wide), odd)
                                weight += values
                            candidate = tanh(add(even, odd))
                            h = fma(gate, sub(load(state, row + j, wide), candidate), candidate)
                            store(state, new + key * values + j, h)
                            out += behind
                            store(result, out, fma(asked, h, load(result, out, wide)))
                    old = new
                end = (string + 1) * of_outputs + at
                for n in range(0, size, wide):
                    store(result, end + n, load(state, old + n, wide))

    return m2rnn_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (w, turned, v, H before, k, f, q, dy; dw, dk, dv, df, dq and dH to fill).

    dH comes as the gradient of the last H and leaves as that of the first; dw and dv come as zeros.
    """

    @compiled(wide, dtype)
    def m2rnn_backward(  # type: ignore[no-untyped-def]
        w, turned, v, before, k, f, q, dy, dw, dk, dv, df, dq, carried
    ):
        strings, length, heads, values = v.shape
        keys = before.shape[2]
        size = keys * values
        states = np.empty((length + 1) * size, v.dtype)
        candidates = np.empty(length * size, v.dtype)
        slopes = np.empty(length * size, v.dtype)
        none = zero(load(v, 0, wide))
        one = every(1.0, none)
        for string in range(strings):
            for head in range(heads):
                at = (string * heads + head) * size
                for n in range(0, size, wide):
                    store(states, n, load(before, at + n, wide))
                for t in range(length):
                    place = (string * length + t) * heads + head
                    gate = every(f[place], none)
                    for key in range(keys):
                        row = t * size + key * values
                        strength = every(k[place * keys + key], none)
                        for j in range(0, values, wide):
                            weight = head * values * values + j
                            even, odd = mul(strength, load(v, place * values + j, wide)), none
                            for i in range(row, row + values, 2):
                                even = fma(every(states[i], none), load(w, weight, wide), even)
                                weight += values
                                odd = fma(every(states[i + 1], none), load(w, weight, wide), odd)
                                weight += values
                            c = tanh(add(even, odd))
                            store(candidates, row + j, c)
                            h = fma(gate, sub(load(states, row + j, wide), c), c)
                            store(states, row + size + j, h)
                for back in range(length):
                    t = length - 1 - back
                    place = (string * length + t) * heads + head
                    gate, of_gate = every(f[place], none), none
                    left = sub(one, gate)
                    for key in range(keys):
                        row, kept = t * size + key * values, at + key * values
                        asked = every(q[place * keys + key], none)
                        strength = every(k[place * keys + key], none)
                        of_query, of_key = none, none
                        for j in range(0, values, wide):
                            out = place * values + j
                            slope, c = load(dy, out, wide), load(candidates, row + j, wide)
                            of_query = fma(slope, load(states, row + size + j, wide), of_query)
                            adjoint = fma(asked, slope, load(carried, kept + j, wide))
                            of_gate = fma(adjoint, sub(load(states, row + j, wide), c), of_gate)
                            slope = mul(mul(adjoint, left), sub(one, mul(c, c)))
                            of_key = fma(slope, load(v, out, wide), of_key)
                            store(dv, out, fma(strength, slope, load(dv, out, wide)))
                            store(slopes, row + j, slope)
                            store(carried, kept + j, mul(gate, adjoint))
                        dq[place * keys + key] = total(of_query)
                        dk[place * keys + key] = total(of_key)
                        for j in range(0, values, wide):
                            weight = head * values * values + j
                            even, odd = load(carried, kept + j, wide), none
                            for i in range(row, row + values, 2):
                                even = fma(every(slopes[i], none), load(turned, weight, wide), even)
                                weight += values
                                slope = every(slopes[i + 1], none)
                                odd = fma(slope, load(turned, weight, wide), odd)
                                weight += values
                            store(carried, kept + j, add(even, odd))
                    df[place] = total(of_gate)
                for i in range(0, values, 4):  # four rows of dW at a time
                    for j in range(0, values, wide):
                        first, second, third, fourth = none, none, none, none
                        for n in range(0, length * size, values):
                            slope = load(slopes, n + j, wide)
                            first = fma(every(states[n + i], none), slope, first)
                            second = fma(every(states[n + i + 1], none), slope, second)
                            third = fma(every(states[n + i + 2], none), slope, third)
                            fourth = fma(every(states[n + i + 3], none), slope, fourth)
                        weight = (head * values + i) * values + j
                        store(dw, weight, add(load(dw, weight, wide), first))
                        weight += values
                        store(dw, weight, add(load(dw, weight, wide), second))
                        weight += values
                        store(dw, weight, add(load(dw, weight, wide), third))
                        weight += values
                        store(dw, weight, add(load(dw, weight, wide), fourth))

    return m2rnn_backward
