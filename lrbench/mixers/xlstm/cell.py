"""The recurrence of an sLSTM: averages of new values with exponential weights, in heads.

    (i, f, z, o)_t = drive_t + R h_{t-1}                        R maps the units of a head to it
    c_t = sigmoid(f) c_{t-1} + e^i tanh(z),   n_t = sigmoid(f) n_{t-1} + e^i
    h_t = sigmoid(o) c_t / n_t

e^i overflows, so that public code divides c and n by e^m with a running maximum m. What an output
needs of c, n and m is two numbers: the average a = c / n and the log of its weight, s = m + log n.

    k_t = s_{t-1} + log sigmoid(f),   g_t = sigmoid(i - k_t)
    a_t = a_{t-1} + g_t (tanh(z) - a_{t-1}),   s_t = log(e^{k_t} + e^i),   h_t = sigmoid(o) a_t

Nothing here can overflow or be divided by zero. s = EMPTY says that a string has not begun: then
g = 1 to the last bit, whatever the other strings of the batch have read.

Adjoints (H of h, with what comes through R; A of a, S of s):

    A_t += sigmoid(o) H_t,   x_t = A_t (tanh(z) - a_{t-1}) g (1 - g),   K_t = (1 - g) S_t - x_t
    di = x_t + g S_t,  df = K_t (1 - sigmoid(f)),  dz = A_t g (1 - tanh(z)^2),
    do = H_t a_t sigmoid(o) (1 - sigmoid(o)),   A_{t-1} = (1 - g) A_t,   S_{t-1} = K_t

Shapes: drive (B, T, H, 4, d), gates in the order i, f, z, o; R = recurrent (H, d, 4, d), from a
unit to gates; h, a, s (B, H, d).

The compiled loop follows one head of one string over all its positions, with its state in the
first-level cache. Shapes there: turned (H, 4, d, d), R the other way; y, dy (B, T, H, d); kept
(B, T, H, 5, d): g, tanh z, 1 - sigmoid(f), sigmoid(o) and a. d is a multiple of `wide`, the units
that go together.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled, part
from lrbench.kernels.elementary import LOG2_E, exp2, log2, sigmoid
from lrbench.kernels.lanes import (
    NARROWEST,
    add,
    every,
    fma,
    greater,
    load,
    magnitude,
    mul,
    side_by_side,
    store,
    sub,
    zero,
)
from lrbench.scan.diagonal.triples import EMPTY

State = tuple[Tensor, Tensor, Tensor]


def empty_state(like: Tensor, batch: int, heads: int, units: int) -> State:
    """Return (h, a, s), (B, H, d) each, before a string; numbers are such as those of `like`."""
    zeros = like.new_zeros(batch, heads, units)
    return zeros, zeros.clone(), torch.full_like(zeros, EMPTY)


def cell(drive: Tensor, recurrent: Tensor, state: State) -> tuple[Tensor, State]:
    """Return one position's h (B, H, d) and the state after it, from drive (B, H, 4, d)."""
    h, a, s = state
    i, f, z, o = (drive + torch.einsum("bhk,hkgj->bhgj", h, recurrent)).unbind(2)
    k = s + logsigmoid(f)
    a = torch.lerp(a, torch.tanh(z), torch.sigmoid(i - k))
    h = torch.sigmoid(o) * a
    return h, (h, a, torch.logaddexp(k, i))


def run(drive: Tensor, recurrent: Tensor, state: State) -> tuple[Tensor, State]:
    """Return h_1..h_T (B, T, H, d) and the state after them; `cell` again and again."""
    wide = side_by_side(drive.shape[-1])
    fits = wide >= NARROWEST and drive.numel() > 0
    form = COMPILED if fits and usable(drive, "slstm", wide) else LOOP
    result = form(drive, recurrent, *state)
    h, a, s = state
    y, a, s = result.tensor_split([result.shape[1] - 2 * a[0].numel(), -s[0].numel()], 1)
    y = y.unflatten(1, (drive.shape[1], *h.shape[1:]))
    return y, (y[:, -1], a.view_as(h), s.view_as(h))


def _packed(y: Tensor, a: Tensor, s: Tensor) -> Tensor:
    return torch.cat([y.flatten(1), a.flatten(1), s.flatten(1)], 1)


def _forward(drive: Tensor, recurrent: Tensor, h: Tensor, a: Tensor, s: Tensor) -> Tensors:
    """Return y, a, s side by side and (g, tanh z, 1 - sigmoid f, sigmoid o, a), all positions'."""
    outputs, kept, matrix = [], [], recurrent.flatten(2)
    heads, units = a.shape[1:]
    for at in drive.unbind(1):
        pushed = torch.bmm(h.transpose(0, 1), matrix).transpose(0, 1)
        i, f, z, o = (at + pushed.reshape(-1, heads, 4, units)).unbind(2)
        k = s + logsigmoid(f)
        g, value, gate = torch.sigmoid(i - k), torch.tanh(z), torch.sigmoid(o)
        a = torch.lerp(a, value, g)
        h, s = gate * a, torch.logaddexp(k, i)
        outputs.append(h)
        kept.append(torch.stack([g, value, torch.sigmoid(-f), gate, a], 2))
    return _packed(torch.stack(outputs, 1), a, s), torch.stack(kept, 1)


def _backward(*tensors: Tensor) -> Tensors:
    drive, recurrent, h, a, _s, result, kept, gradient = tensors
    dy, da, ds = _unpacked(gradient, drive, a)
    ddrive, dh, matrix = torch.empty_like(drive), torch.zeros_like(h), recurrent.flatten(2)
    for t in range(drive.shape[1] - 1, -1, -1):
        g, value, falls, gate, average = kept[:, t].unbind(2)
        before = kept[:, t - 1, :, 4] if t else a
        upstream = dy[:, t] + dh
        da = torch.addcmul(da, upstream, gate)
        x = da * (value - before) * g * (1 - g)
        through = ds * (1 - g) - x
        slopes = (
            torch.addcmul(x, ds, g),
            through * falls,
            da * g * (1 - value.square()),
            upstream * average * gate * (1 - gate),
        )
        ddrive[:, t] = torch.stack(slopes, 2)
        da, ds = da * (1 - g), through
        pushed = ddrive[:, t].flatten(2).transpose(0, 1)
        dh = torch.bmm(pushed, matrix.transpose(1, 2)).transpose(0, 1)
    return ddrive, _of_recurrent(recurrent, h, result, ddrive), dh, da, ds


def _unpacked(gradient: Tensor, drive: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of y (B, T, H, d) and of the last a and s, (B, H, d)."""
    after = a[0].numel()
    dy, da, ds = gradient.tensor_split([gradient.shape[1] - 2 * after, -after], 1)
    dy = dy.reshape(*drive.shape[:3], drive.shape[4])
    return dy, da.reshape(a.shape).clone(), ds.reshape(a.shape).clone()


def _of_recurrent(recurrent: Tensor, h: Tensor, result: Tensor, ddrive: Tensor) -> Tensor:
    """Return the gradient of R: each position's, along the h before it."""
    shape = *ddrive.shape[:3], ddrive.shape[4]
    y = result[:, : ddrive.numel() // (4 * len(ddrive))].view(shape)
    before = torch.cat([h[:, None], y[:, :-1]], 1)
    of_heads = before.permute(2, 3, 0, 1).flatten(2)
    return torch.bmm(of_heads, ddrive.permute(2, 0, 1, 3, 4).flatten(3).flatten(1, 2)).view(
        recurrent.shape
    )


def _compiled_forward(drive: Tensor, recurrent: Tensor, h: Tensor, a: Tensor, s: Tensor) -> Tensors:
    y = drive.new_empty(*drive.shape[:3], drive.shape[4])
    kept = drive.new_empty(*drive.shape[:3], KEPT, drive.shape[4])
    h, a, s = (part.clone(memory_format=torch.contiguous_format) for part in (h, a, s))
    loop = forward_loop(side_by_side(drive.shape[-1]), DTYPES[drive.dtype])
    flat = (t.flatten() for t in (h, a, s))
    loop(array(drive), array(recurrent), *map(array, flat), array(y), array(kept))
    return _packed(y, a, s), kept


def _compiled_backward(*tensors: Tensor) -> Tensors:
    drive, recurrent, h, a, _s, result, kept, gradient = tensors
    dy, da, ds = _unpacked(gradient, drive, a)
    dh = torch.zeros_like(da, memory_format=torch.contiguous_format)
    da, ds = da.contiguous(), ds.contiguous()
    ddrive = torch.empty_like(drive, memory_format=torch.contiguous_format)
    turned = recurrent.permute(0, 2, 3, 1)
    loop = backward_loop(side_by_side(drive.shape[-1]), DTYPES[drive.dtype])
    loop(*map(array, (turned, a, kept, dy, dh, da, ds, ddrive.flatten())))
    return ddrive, _of_recurrent(recurrent, h, result, ddrive), dh, da, ds


LOOP = ClosedForm(_forward, _backward, one_by_one)
COMPILED = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


LOG_2 = math.log(2)
KEPT = 5


@part
def log_of_one_and(x):  # type: ignore[no-untyped-def]
    """Return log(1 + e^{-|x|}) in each lane."""
    fallen = exp2(mul(magnitude(x), every(-LOG2_E, x)))
    return mul(log2(add(every(1.0, x), fallen)), every(LOG_2, x))


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (drive, recurrent, h, a, s to be followed; y and kept to fill)."""

    @compiled(wide, dtype)
    def slstm_forward(drive, recurrent, h, a, s, y, kept):  # type: ignore[no-untyped-def]
        strings, length, heads, _, units = drive.shape
        new = np.empty(units, drive.dtype)
        one = every(1.0, zero(load(drive, 0, wide)))
        for string in range(strings):
            for head in range(heads):
                state = (string * heads + head) * units
                for t in range(length):
                    place = (string * length + t) * heads + head
                    for j in range(0, units, wide):
                        gates = place * 4 * units + j
                        into = load(drive, gates, wide)
                        forget = load(drive, gates + units, wide)
                        value = load(drive, gates + 2 * units, wide)
                        out = load(drive, gates + 3 * units, wide)
                        row = head * units * 4 * units + j
                        for k in range(units):
                            unit = every(h[state + k], one)
                            into = fma(unit, load(recurrent, row, wide), into)
                            forget = fma(unit, load(recurrent, row + units, wide), forget)
                            value = fma(unit, load(recurrent, row + 2 * units, wide), value)
                            out = fma(unit, load(recurrent, row + 3 * units, wide), out)
                            row += 4 * units
                        falls = sigmoid(sub(zero(one), forget))
                        least = sub(zero(one), greater(sub(zero(one), forget), zero(one)))
                        k_log = add(load(s, state + j, wide), sub(least, log_of_one_and(forget)))
                        ahead = sub(into, k_log)
                        share = sigmoid(ahead)
                        store(s, state + j, add(greater(into, k_log), log_of_one_and(ahead)))
                        tanh = sub(mul(every(2.0, one), sigmoid(add(value, value))), one)
                        before = load(a, state + j, wide)
                        average = fma(share, sub(tanh, before), before)
                        store(a, state + j, average)
                        gate = sigmoid(out)
                        store(new, j, mul(gate, average))
                        at = place * 5 * units + j
                        store(kept, at, share)
                        store(kept, at + units, tanh)
                        store(kept, at + 2 * units, falls)
                        store(kept, at + 3 * units, gate)
                        store(kept, at + 4 * units, average)
                    for j in range(0, units, wide):
                        store(h, state + j, load(new, j, wide))
                        store(y, place * units + j, load(new, j, wide))

    return slstm_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (turned, a before, kept, dy; dh, da, ds to be followed; ddrive to fill).

    dh comes as zeros; da and ds as the gradients of the last state. They leave as those of the
    first.
    """

    @compiled(wide, dtype)
    def slstm_backward(turned, first, kept, dy, dh, da, ds, ddrive):  # type: ignore[no-untyped-def]
        strings, length, heads, units = dy.shape
        one = every(1.0, zero(load(dy, 0, wide)))
        for string in range(strings):
            for head in range(heads):
                state = (string * heads + head) * units
                for back in range(length):
                    t = length - 1 - back
                    place = (string * length + t) * heads + head
                    for j in range(0, units, wide):
                        at = place * 5 * units + j
                        share, tanh = load(kept, at, wide), load(kept, at + units, wide)
                        gate = load(kept, at + 3 * units, wide)
                        average = load(kept, at + 4 * units, wide)
                        if t > 0:
                            before = load(kept, at + 4 * units - heads * 5 * units, wide)
                        else:
                            before = load(first, state + j, wide)
                        upstream = add(load(dy, place * units + j, wide), load(dh, state + j, wide))
                        of_average = fma(upstream, gate, load(da, state + j, wide))
                        of_weight = load(ds, state + j, wide)
                        keep = sub(one, share)
                        x = mul(mul(of_average, sub(tanh, before)), mul(share, keep))
                        of_before = sub(mul(of_weight, keep), x)
                        out = place * 4 * units + j
                        store(ddrive, out, fma(of_weight, share, x))
                        falls = load(kept, at + 2 * units, wide)
                        store(ddrive, out + units, mul(of_before, falls))
                        slope = mul(mul(of_average, share), sub(one, mul(tanh, tanh)))
                        store(ddrive, out + 2 * units, slope)
                        slope = mul(mul(upstream, average), mul(gate, sub(one, gate)))
                        store(ddrive, out + 3 * units, slope)
                        store(da, state + j, mul(of_average, keep))
                        store(ds, state + j, of_before)
                    for k in range(0, units, wide):
                        sums, later_sums = zero(one), zero(one)
                        row = head * 4 * units * units + k
                        out = place * 4 * units
                        for gate_unit in range(2 * units):
                            slope = every(ddrive[out + gate_unit], one)
                            sums = fma(slope, load(turned, row, wide), sums)
                            slope = every(ddrive[out + 2 * units + gate_unit], one)
                            later = row + 2 * units * units
                            later_sums = fma(slope, load(turned, later, wide), later_sums)
                            row += units
                        store(dh, state + k, add(sums, later_sums))

    return slstm_backward
