"""The selective scan of Mamba: diagonal systems whose step, input and output depend on the input.

Gu & Dao 2023 (arXiv:2312.00752). Each of E channels has N numbers h_n, which decay at rates a_n by
steps d_t >= 0 of the channel, and are written and read by what all channels share:

    h_t = g(d_t a) h_{t-1} + d_t x_t b_t,   y_t = c_t . h_t + skip x_t,   g(z) = r e^z - (r - 1)

With r = 1 and a < 0, g is in (0, 1); with r = 2 (Grazzi et al. 2025, arXiv:2411.12537) in (-1, 1).

Two ways to compute it, equal up to rounding: `sequential`, a loop that makes decays where they are
used and, in its backward, makes states and decays again, so that nothing of size (B, T, N, E) is
kept; and `scan`, which writes out all transitions, as equations do.

Adjoints: with e = r e^(d a), lambda_t = c_t dy_t + g_{t+1} lambda_{t+1},

    d(d a) = lambda_t h_{t-1} e,   dc_t = sum of dy_t h_t,   db_t = sum of lambda_t d_t x_t,

the sums being over channels.

Shapes: rates (N, E); skip (E); steps d and inputs x (B, T, E); b and c (B, T, N); states (B, N, E).

The compiled loops take several channels side by side. One of the N numbers of a string's channels
is followed over all positions before the next. Shapes there: out, and its gradient, (B, T + N, E):
the outputs, then the last state. E is a multiple of `wide`, the channels that go together; reach is
r.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from lrbench.errors import unknown
from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.elementary import LOG2_E, exp2
from lrbench.kernels.lanes import (
    NARROWEST,
    add,
    every,
    fma,
    load,
    mul,
    side_by_side,
    store,
    total,
    zero,
)
from lrbench.scan import scan
from lrbench.scan.transitions import Diagonal

MODES = ("sequential", "scan")


def selective_scan(
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
    reach: float = 1.0,
    mode: str = "sequential",
) -> tuple[Tensor, Tensor]:
    """Return y (B, T, E) and the state after the last position, (B, N, E).

    Args:
        rates: a, (N, E); negative.
        skip: (E).
        steps: d, (B, T, E), none negative.
        x: (B, T, E).
        b: (B, T, N), along which x is written.
        c: (B, T, N), along which y is read.
        initial: the state before, (B, N, E).
        reach: r, 1 for decays in (0, 1), 2 for decays in (-1, 1).
        mode: a name in MODES.

    Raises UserError for another mode.
    """
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    inputs = rates, skip, steps, x, b, c, initial
    if mode == "scan":
        return _written_out(reach, *inputs)
    wide = side_by_side(x.shape[2])
    fits = x.numel() > 0 and wide >= NARROWEST and usable(x, "selective_scan", wide)
    out = _form(reach, fits)(*inputs)
    y, last = out.tensor_split([x.shape[1]], 1)
    return y, last


def _written_out(reach: float, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Compute it by a scan over transitions (B, T, N E)."""
    rates, skip, steps, x, b, c, initial = inputs
    decays = reach * (steps[:, :, None] * rates).exp() - (reach - 1)
    drives = b[..., None] * (steps * x)[:, :, None]
    states = scan(Diagonal(decays.flatten(2)), drives.flatten(2), initial.flatten(1), "auto")
    states = states.view_as(drives)
    return (c[:, :, None] @ states)[:, :, 0] + skip * x, states[:, -1]


@cache
def _form(reach: float, is_compiled: bool) -> ClosedForm:
    forward, backward = (
        (_compiled_forward, _compiled_backward) if is_compiled else (_forward, _backward)
    )
    form = partial(forward, reach), partial(backward, reach)
    return ClosedForm(*form, one_by_one, needs_result=False)


def _fallen(reach: float, rates: Tensor, step: Tensor) -> Tensor:
    """Return r e^(d a), (B, N, E), for the steps (B, E) of a position."""
    return (step[:, None] * rates).exp_().mul_(reach)


def _forward(reach: float, *inputs: Tensor) -> tuple[Tensor]:
    """Return y and the last state in rows behind each other, (B, T + N, E)."""
    rates, skip, steps, x, b, c, initial = inputs
    length, h = x.shape[1], initial
    out = x.new_empty(len(x), length + len(rates), x.shape[2])
    for t in range(length):
        decay = _fallen(reach, rates, steps[:, t]).sub_(reach - 1)
        h = torch.addcmul(decay * h, b[:, t, :, None], (steps[:, t] * x[:, t])[:, None])
        out[:, t] = torch.addcmul((c[:, t, None] @ h)[:, 0], skip, x[:, t])
    out[:, length:] = h
    return (out,)


def _backward(reach: float, *tensors: Tensor) -> Tensors:
    rates, skip, steps, x, b, c, initial, gradient = tensors
    length, drive = x.shape[1], steps * x
    kept = [initial]  # the state before each position
    for t in range(length):
        decay = _fallen(reach, rates, steps[:, t]).sub_(reach - 1)
        kept.append(torch.addcmul(decay * kept[-1], b[:, t, :, None], drive[:, t, None]))
    dy, adjoint = gradient[:, :length], gradient[:, length:].clone()
    drates = torch.zeros_like(rates)
    dsteps, dx = torch.empty_like(steps), torch.empty_like(x)
    db, dc = torch.empty_like(b), torch.empty_like(c)
    for t in range(length - 1, -1, -1):
        upstream, step = dy[:, t], steps[:, t]
        dc[:, t] = (kept.pop() @ upstream[..., None])[..., 0]
        adjoint = torch.addcmul(adjoint, c[:, t, :, None], upstream[:, None])
        db[:, t] = (adjoint @ drive[:, t, :, None])[..., 0]
        into = (b[:, t, None] @ adjoint)[:, 0]
        fallen = _fallen(reach, rates, step)
        slope = adjoint * kept[-1] * fallen
        drates += (slope * step[:, None]).sum(0)
        dsteps[:, t] = torch.addcmul((slope * rates).sum(1), into, x[:, t])
        dx[:, t] = torch.addcmul(skip * upstream, into, step)
        adjoint = adjoint * fallen.sub_(reach - 1)
    return drates, (dy * x).sum((0, 1)), dsteps, dx, db, dc, adjoint


def _compiled_forward(reach: float, *inputs: Tensor) -> tuple[Tensor]:
    rates, x = inputs[0], inputs[3]
    out = x.new_empty(len(x), x.shape[1] + len(rates), x.shape[2])
    loop = forward_loop(side_by_side(x.shape[2]), DTYPES[x.dtype])
    loop(*map(array, inputs), array(x).dtype.type(reach), array(out))
    return (out,)


def _compiled_backward(reach: float, *tensors: Tensor) -> Tensors:
    *inputs, gradient = tensors
    x = inputs[3]
    gradients = (
        *(t.new_zeros(t.shape) for t in inputs[:2]),  # of rates and skip, which are sums
        *(t.new_empty(t.shape) for t in inputs[2:]),
    )
    loop = backward_loop(side_by_side(x.shape[2]), DTYPES[x.dtype])
    number = array(x).dtype.type(reach)
    loop(*map(array, inputs), number, *map(array, (gradient, *gradients)))
    return gradients


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rates, skip, steps, x, b, c, x0, reach; out to fill)."""

    @compiled(wide, dtype)
    def selective_forward(rates, skip, steps, x, b, c, x0, reach, out):  # type: ignore[no-untyped-def]
        strings, length, channels = x.shape
        modes, span = rates.shape[0], length * channels
        for string in range(strings):
            start, place = string * span, string * (span + modes * channels)
            for d in range(0, channels, wide):
                gain = load(skip, d, wide)
                for k in range(d, d + span, channels):
                    store(out, place + k, mul(gain, load(x, start + k, wide)))
            for n in range(modes):
                for d in range(0, channels, wide):
                    rate = load(rates, n * channels + d, wide)
                    falls = mul(rate, every(LOG2_E, rate))
                    scale, less = every(reach, rate), every(1 - reach, rate)
                    h = load(x0, (string * modes + n) * channels + d, wide)
                    for t in range(length):
                        k = t * channels + d
                        step = load(steps, start + k, wide)
                        decay = fma(scale, exp2(mul(step, falls)), less)
                        drive = mul(step, load(x, start + k, wide))
                        h = fma(decay, h, mul(drive, every(b[string, t, n], rate)))
                        seen = fma(every(c[string, t, n], rate), h, load(out, place + k, wide))
                        store(out, place + k, seen)
                    store(out, place + span + n * channels + d, h)

    return selective_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rates, skip, steps, x, b, c, x0, reach, dout; gradients to fill).

    The gradients are those of rates and skip, which must come as zeros, and of steps, x, b, c, x0.
    """

    @compiled(wide, dtype)
    def selective_backward(  # type: ignore[no-untyped-def]
        rates, skip, steps, x, b, c, x0, reach, dout, drates, dskip, dsteps, dx, db, dc, dx0
    ):
        strings, length, channels = x.shape
        modes, span, pair = rates.shape[0], length * channels, 2 * wide
        kept = np.empty(length * pair, x.dtype)  # states before a position, and its decay
        sums = np.empty(length * pair, x.dtype)  # of the gradients of b and of c
        for string in range(strings):
            start, place = string * span, string * (span + modes * channels)
            for d in range(0, channels, wide):
                gain, of_skip = load(skip, d, wide), load(dskip, d, wide)
                for k in range(d, d + span, channels):
                    upstream = load(dout, place + k, wide)
                    store(dx, start + k, mul(gain, upstream))
                    store(dsteps, start + k, zero(gain))
                    of_skip = fma(upstream, load(x, start + k, wide), of_skip)
                store(dskip, d, of_skip)
            for n in range(modes):
                sums[:] = 0
                for d in range(0, channels, wide):
                    rate = load(rates, n * channels + d, wide)
                    falls = mul(rate, every(LOG2_E, rate))
                    scale, less = every(reach, rate), every(1 - reach, rate)
                    state = (string * modes + n) * channels + d
                    h = load(x0, state, wide)
                    for t in range(length):
                        k = start + t * channels + d
                        step = load(steps, k, wide)
                        fallen = mul(scale, exp2(mul(step, falls)))
                        store(kept, t * pair, h)
                        store(kept, t * pair + wide, fallen)
                        drive = mul(step, load(x, k, wide))
                        h = fma(add(fallen, less), h, mul(drive, every(b[string, t, n], rate)))
                    adjoint = load(dout, place + span + n * channels + d, wide)
                    of_rate = zero(rate)
                    for back in range(length):
                        t = length - 1 - back
                        k, at = start + t * channels + d, t * pair
                        upstream = load(dout, place + t * channels + d, wide)
                        store(sums, at + wide, fma(upstream, h, load(sums, at + wide, wide)))
                        adjoint = fma(upstream, every(c[string, t, n], rate), adjoint)
                        h, fallen = load(kept, at, wide), load(kept, at + wide, wide)
                        step, value = load(steps, k, wide), load(x, k, wide)
                        store(sums, at, fma(adjoint, mul(step, value), load(sums, at, wide)))
                        slope = mul(mul(adjoint, h), fallen)  # of step times rate
                        of_rate = fma(slope, step, of_rate)
                        into = mul(adjoint, every(b[string, t, n], rate))
                        of_step = fma(slope, rate, load(dsteps, k, wide))
                        store(dsteps, k, fma(into, value, of_step))
                        store(dx, k, fma(into, step, load(dx, k, wide)))
                        adjoint = mul(adjoint, add(fallen, less))
                    store(dx0, state, adjoint)
                    of_rate = add(of_rate, load(drates, n * channels + d, wide))
                    store(drates, n * channels + d, of_rate)
                for t in range(length):
                    db[string, t, n] = total(load(sums, t * pair, wide))
                    dc[string, t, n] = total(load(sums, t * pair + wide, wide))

    return selective_backward
