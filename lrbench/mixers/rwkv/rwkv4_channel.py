"""The channel mix of RWKV-4, the sublayer that stands where other stacks have a perceptron.

    z'_x = mu_x z_t + (1 - mu_x) z_{t-1}   for x in k, r; z_0 = 0
    y_t = sigmoid(W_r z'_r) (W_v relu(W_k z'_k)^2),    W_k (4 D, D), W_v (D, 4 D)

Peng et al. 2023, arXiv:2305.13048; W_v and W_r start at zero, W_k is orthogonal with a gain of the
root of its sides' ratio, as in the authors' public code. The state is the last z.

As in `perceptron`, some strings go through all of it before the next ones do: reading and writing
up to 4 D numbers per position for a dozen operations, and their gradients, stays in the cache.
Kept for the backward: relu(W_k z'_k), the gate and y.

What stands between the products is compiled where it can be. With p the position before z, a and b
for z'_k and z'_r, y for W_v relu(.)^2 and s for the gate, which is made in place of y_r = W_r z'_r,

    dy = g s,   dy_r = g y (1 - s),   dmu_k = sum da (z - p),   dmu_r = sum db (z - p),
    dz_t = mu_k da_t + mu_r db_t + (1 - mu_k) da_{t+1} + (1 - mu_r) db_{t+1}.

Shapes in loops: z, s, y, g and dz (B, T, D); first and dfirst (B, D), the position before the
first; mu and dmu (2, D). Pieces, such as a, b, da and db, hold the strings from `start` to `stop`
(rows, D).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.kernels.choice import DTYPES, heard, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.elementary import sigmoid
from lrbench.kernels.lanes import add, every, fma, load, mul, store, sub, zero
from lrbench.kernels.products import add_product, product
from lrbench.mixers.base import Mixer, ParameterRule

ROWS = 512  # positions that go through together
WIDE = 16  # the compiled loops take so many numbers at a time


class RwkvChannelMixer(Mixer):
    """Channel mixing of RWKV-4 (Peng et al. 2023)."""

    def __init__(self, config: Any, width: int) -> None:
        super().__init__(config, width)
        inner = config.expansion * width
        self.shares = nn.Parameter(torch.empty(2, width))
        self.key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(inner, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.key.weight, gain=config.expansion**0.5)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.receptance.weight)
        self.place(0, 1)

    @torch.no_grad()
    def place(self, layer: int, layers: int) -> None:
        """Set the shares: deeper layers look back less."""
        channel = torch.arange(self.width, dtype=self.shares.dtype, device=self.shares.device)
        self.shares.copy_((channel / self.width) ** (1 - layer / layers))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {"shares": ParameterRule(decay=False)}

    @property
    def state_size(self) -> int:
        return self.width

    def initial_state(self, batch: int) -> Tensor:
        return self.shares.new_zeros(batch, self.width)

    def forward(
        self, u: Tensor, state: Tensor | None = None, mode: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D) to y (B, T, D); nothing recurs, so every mode is the same."""
        first = self.initial_state(len(u)) if state is None else state
        if heard(self.key, self.value, self.receptance):
            return self._by_layers(u, first), u[:, -1]
        weights = self.key.weight, self.value.weight, self.receptance.weight
        fits = u.shape[-1] % WIDE == 0 and u.numel() > 0 and usable(u, "channel_mix")
        mix = COMPILED_CHANNEL_MIX if fits else CHANNEL_MIX
        return mix(*weights, self.shares, u, first), u[:, -1]

    def _by_layers(self, u: Tensor, first: Tensor) -> Tensor:
        """Return y (B, T, D) as the equations are written, each linear map called."""
        before = shifted(u, first)
        for_key, for_gate = (torch.addcmul(before, u - before, mu) for mu in self.shares)
        y: Tensor = self.value(self.key(for_key).relu().square())
        gate: Tensor = self.receptance(for_gate).sigmoid()
        return y * gate


def shifted(z: Tensor, first: Tensor) -> Tensor:
    """Return the position before each of z (B, T, D), `first` (B, D) before the first."""
    return torch.cat([first[:, None], z[:, :-1]], dim=1)


def _forward(
    key: Tensor, value: Tensor, receptance: Tensor, shares: Tensor, z: Tensor, first: Tensor
) -> tuple[Tensor, ...]:
    """Return y (B, T, D); kept: relu(W_k z'_k) (B, T, 4 D) and the gate (B, T, D)."""
    keys = z.new_empty(*z.shape[:2], len(key))
    y, gate = (torch.empty_like(z, memory_format=torch.contiguous_format) for _ in range(2))
    strings = (t.split(_at_once(z)) for t in (z, first, keys, gate, y))
    for zs, starts, ks, gates, ys in zip(*strings, strict=True):
        before = shifted(zs, starts)
        change = zs - before
        for_key, for_gate = (torch.addcmul(before, change, mu).flatten(0, 1) for mu in shares)
        product(for_key, key.T, out=ks.flatten(0, 1)).relu_()
        product(ks.flatten(0, 1).square(), value.T, out=ys.flatten(0, 1))
        product(for_gate, receptance.T, out=gates.flatten(0, 1)).sigmoid_()
        ys.mul_(gates)
    return y, keys, gate


def _backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    key, value, receptance, shares, z, first, y, keys, gate, gradient = tensors
    weights = [w.new_zeros(w.shape) for w in (key, value, receptance, shares)]
    dkey, dvalue, dreceptance, dshares = weights
    dz = torch.empty_like(z, memory_format=torch.contiguous_format)
    dfirst = torch.empty_like(first, memory_format=torch.contiguous_format)
    strings = (t.split(_at_once(z)) for t in (z, first, keys, gate, y, gradient, dz, dfirst))
    for zs, starts, k, gates, ys, g, out, out_first in zip(*strings, strict=True):
        before = shifted(zs, starts)
        change = zs - before
        for_key, for_gate = (torch.addcmul(before, change, mu).flatten(0, 1) for mu in shares)
        ks, dgated = k.flatten(0, 1), (g * gates).flatten(0, 1)
        add_product(dvalue, dgated.T, ks.square())
        dk = product(dgated, value).mul_(ks).mul_(2)
        add_product(dkey, dk.T, for_key)
        dgate = (g * ys).mul_(1 - gates).flatten(0, 1)  # gate' = gate (1 - gate)
        add_product(dreceptance, dgate.T, for_gate)
        slopes = [product(d, w).view_as(zs) for d, w in ((dk, key), (dgate, receptance))]
        _back_through_shift(shares, change, slopes, out, out_first, dshares)
    return *weights, dz, dfirst


def _back_through_shift(
    shares: Tensor,
    change: Tensor,
    slopes: list[Tensor],
    dz: Tensor,
    dfirst: Tensor,
    dshares: Tensor,
) -> None:
    """Write to dz, dfirst and add to dshares what the gradients of z'_k and z'_r amount to."""
    torch.mul(slopes[0], shares[0], out=dz).addcmul_(slopes[1], shares[1])
    before = slopes[0] + slopes[1]
    before.sub_(dz)
    dz[:, :-1] += before[:, 1:]
    dfirst.copy_(before[:, 0])
    for row, slope in zip(dshares, slopes, strict=True):
        row += (slope * change).sum((0, 1))


def _at_once(z: Tensor) -> int:
    """Return how many strings go through together: all of them on a GPU."""
    return max(1, ROWS // z.shape[1]) if z.device.type == "cpu" else max(1, len(z))


def _compiled_forward(
    key: Tensor, value: Tensor, receptance: Tensor, shares: Tensor, z: Tensor, first: Tensor
) -> tuple[Tensor, ...]:
    length, width, many = z.shape[1], z.shape[2], _at_once(z)
    keys = z.new_empty(len(z) * length, len(key))
    y, gate = z.new_empty(2, len(keys), width)
    for_key, for_gate = z.new_empty(2, many * length, width)
    squares = z.new_empty(len(for_key), len(key))
    shift, multiply = shift_loop(DTYPES[z.dtype]), gate_loop(DTYPES[z.dtype])
    inputs = [array(t) for t in (z, first, shares, for_key, for_gate)]
    outputs = array(gate), array(y)
    for start in range(0, len(z), many):
        stop = min(start + many, len(z))
        piece, here = slice(start * length, stop * length), slice(0, (stop - start) * length)
        shift(*inputs, start, stop)
        product(for_key[here], key.T, out=keys[piece]).relu_()
        torch.mul(keys[piece], keys[piece], out=squares[here])
        product(squares[here], value.T, out=y[piece])
        product(for_gate[here], receptance.T, out=gate[piece])
        multiply(*outputs, piece.start * width, piece.stop * width)
    return y.view(z.shape), keys, gate


def _compiled_backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    key, value, receptance, shares, z, first, y, keys, gate, gradient = tensors
    length, width, many = z.shape[1], z.shape[2], _at_once(z)
    weights = [w.new_zeros(w.shape) for w in (key, value, receptance, shares)]
    dkey, dvalue, dreceptance, dshares = weights
    dz, dfirst = z.new_empty(z.shape), first.new_empty(first.shape)
    for_key, for_gate, dgated, dgate = z.new_empty(4, many * length, width)
    squares, dk = z.new_empty(2, len(for_key), len(key))
    shift, back = (loop(DTYPES[z.dtype]) for loop in (shift_loop, shift_slope_loop))
    split, twice = gate_slope_loop(DTYPES[z.dtype]), 2 * value
    inputs = [array(t) for t in (z, first, shares)]
    pieces = [array(t) for t in (for_key, for_gate)]
    gates = [array(t) for t in (gradient, gate, y, dgated, dgate)]
    sums = [array(t) for t in (dz, dfirst, dshares)]
    for start in range(0, len(z), many):
        stop = min(start + many, len(z))
        piece, here = slice(start * length, stop * length), slice(0, (stop - start) * length)
        shift(*inputs, *pieces, start, stop)
        split(*gates, piece.start * width, piece.stop * width)
        torch.mul(keys[piece], keys[piece], out=squares[here])
        add_product(dvalue, dgated[here].T, squares[here])
        product(dgated[here], twice, out=dk[here]).mul_(keys[piece])
        add_product(dkey, dk[here].T, for_key[here])
        add_product(dreceptance, dgate[here].T, for_gate[here])
        product(dk[here], key, out=for_key[here])
        product(dgate[here], receptance, out=for_gate[here])
        back(*inputs, *pieces, *sums, start, stop)
    return *weights, dz, dfirst


CHANNEL_MIX = ClosedForm(_forward, _backward, one_by_one)
COMPILED_CHANNEL_MIX = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


@cache
def shift_loop(dtype: str) -> Loop:
    """Return the loop (z, first, mu, pieces to fill: a and b, start, stop)."""

    @compiled(dtype)
    def channel_shift(z, first, mu, a, b, start, stop):  # type: ignore[no-untyped-def]
        length, features = z.shape[1:]
        for string in range(start, stop):
            for d in range(0, features, WIDE):
                before = load(first, string * features + d, WIDE)
                for_key, for_gate = load(mu, d, WIDE), load(mu, features + d, WIDE)
                for t in range(length):
                    now = load(z, (string * length + t) * features + d, WIDE)
                    out = ((string - start) * length + t) * features + d
                    change = sub(now, before)
                    store(a, out, fma(change, for_key, before))
                    store(b, out, fma(change, for_gate, before))
                    before = now

    return channel_shift


@cache
def gate_loop(dtype: str) -> Loop:
    """Return the loop (y_r to become s, y to become y s; numbers `start` to `stop`)."""

    @compiled(dtype)
    def channel_gate(s, y, start, stop):  # type: ignore[no-untyped-def]
        for at in range(start, stop, WIDE):
            gate = sigmoid(load(s, at, WIDE))
            store(s, at, gate)
            store(y, at, mul(load(y, at, WIDE), gate))

    return channel_gate


@cache
def gate_slope_loop(dtype: str) -> Loop:
    """Return the loop (g, s, y, pieces to fill: dy and dy_r; numbers `start` to `stop`)."""

    @compiled(dtype)
    def channel_gate_slope(g, s, y, dy, dgate, start, stop):  # type: ignore[no-untyped-def]
        one = every(1.0, zero(load(g, 0, WIDE)))
        for at in range(start, stop, WIDE):
            upstream, gate = load(g, at, WIDE), load(s, at, WIDE)
            store(dy, at - start, mul(upstream, gate))
            slope = mul(mul(upstream, load(y, at, WIDE)), sub(one, gate))
            store(dgate, at - start, slope)

    return channel_gate_slope


@cache
def shift_slope_loop(dtype: str) -> Loop:
    """Return the loop (z, first, mu, da, db; dz and dfirst to fill, dmu to add to; start, stop)."""

    @compiled(dtype)
    def channel_shift_slope(z, first, mu, da, db, dz, dfirst, dmu, start, stop):  # type: ignore[no-untyped-def]
        length, features = z.shape[1:]
        one = every(1.0, zero(load(z, 0, WIDE)))
        for string in range(start, stop):
            for d in range(0, features, WIDE):
                for_key, for_gate = load(mu, d, WIDE), load(mu, features + d, WIDE)
                key_before, gate_before = sub(one, for_key), sub(one, for_gate)
                of_key, of_gate = load(dmu, d, WIDE), load(dmu, features + d, WIDE)
                passed = zero(one)
                for back in range(length):
                    t = length - 1 - back
                    here = (string * length + t) * features + d
                    if t > 0:
                        before = load(z, here - features, WIDE)
                    else:
                        before = load(first, string * features + d, WIDE)
                    change = sub(load(z, here, WIDE), before)
                    at = ((string - start) * length + t) * features + d
                    key, gate = load(da, at, WIDE), load(db, at, WIDE)
                    of_key, of_gate = fma(key, change, of_key), fma(gate, change, of_gate)
                    store(dz, here, add(passed, fma(key, for_key, mul(gate, for_gate))))
                    passed = fma(key, key_before, mul(gate, gate_before))
                store(dfirst, string * features + d, passed)
                store(dmu, d, of_key)
                store(dmu, features + d, of_gate)

    return channel_shift_slope
