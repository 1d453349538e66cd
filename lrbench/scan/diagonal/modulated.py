"""Diagonal systems whose transition is modulated by their input, one system per channel:

    x_k = (a + b v_k) x_{k-1} + b u_k,    y_k = 2 Re(C x_k) + skip u_k

elementwise over the M numbers of a channel's state, with real inputs u_k and factors v_k of the
channel. The transitions of all positions are M complex numbers for each number of the input, so
that a scan of trees (`modulated_states`) is slow on CPU: a loop makes each where it is used.

Shapes: a, b, c (D, M) complex; skip (D); u, v (B, T, D); x_0 (B, D, M) complex. In loops real and
imaginary parts are apart and channels last: systems (6, M, D) are the parts of a, b and of 2 C in
turn, x_0 and the last state (B, 2, M, D).

The compiled loops take several channels side by side. One of the M numbers of a string's channels
is followed over all positions before the next: its coefficients, its state and the sums of its
gradients stay in registers, and what lies in memory is read and written in the order of the inputs.
The backward computes the states of that number again, into a scratch that stays in the first-level
cache: nothing of size (B, T, M, D) is ever in memory. D is a multiple of `wide`, the channels that
go together.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import NARROWEST, add, fma, load, mul, side_by_side, store, sub, zero
from lrbench.scan.algorithms.tree import tree
from lrbench.scan.transitions import Diagonal


def modulated_scan(
    a: Tensor, b: Tensor, c: Tensor, skip: Tensor, u: Tensor, v: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y (B, T, D) and the last state (B, D, M) from the state x (B, D, M) before."""
    wide = side_by_side(len(a))
    loop = COMPILED_LOOP if wide >= NARROWEST and usable(u, "modulated_scan", wide) else LOOP
    systems = torch.stack([part for z in (a, b, 2 * c) for part in (z.real.T, z.imag.T)])
    both = loop(systems, skip, u, v, torch.view_as_real(x).permute(0, 3, 2, 1))
    y, last = both.tensor_split([u[0].numel()], 1)
    real, imaginary = last.unflatten(1, (2, *a.T.shape)).mT.unbind(1)
    return y.unflatten(1, u.shape[1:]), torch.complex(real, imaginary)


def modulated_states(a: Tensor, b: Tensor, u: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """Return the states (B, T, D, M) by a scan over transitions that are written out."""
    values = a + b * v[..., None]
    inputs = b * u[..., None]
    states = tree(Diagonal(values.flatten(2)), inputs.flatten(2), x.flatten(1))
    return states.view(*u.shape, -1)


def _forward(
    systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y and the last state side by side, and all states (T + 1, 2, M, B, D)."""
    ar, ai, br, bi, cr, ci = systems[:, :, None].unbind()
    drives, factors = (w.transpose(0, 1).contiguous() for w in (u, v))
    first = x0.permute(1, 2, 0, 3)
    states = first.new_empty(len(drives) + 1, *first.shape)
    states[0] = first
    y, scratch = skip * drives, torch.empty_like(states[0, 0])
    for now, factor, before, after, out in zip(
        drives, factors, states[:-1], states[1:], y, strict=True
    ):
        tr, ti = torch.addcmul(ar, br, factor), torch.addcmul(ai, bi, factor)
        (pr, pi), (xr, xi) = before, after
        torch.mul(br, now, out=xr).addcmul_(tr, pr).addcmul_(ti, pi, value=-1)
        torch.mul(bi, now, out=xi).addcmul_(tr, pi).addcmul_(ti, pr)
        out += torch.mul(cr, xr, out=scratch).addcmul_(ci, xi, value=-1).sum(0)
    last = states[-1].permute(2, 0, 1, 3)
    return torch.cat([y.transpose(0, 1).flatten(1), last.flatten(1)], 1), states


def _backward(*tensors: Tensor) -> Tensors:
    systems, skip, u, v, x0, _, states, gradient = tensors
    ar, ai, br, bi, cr, ci = systems[:, :, None].unbind()
    dy, dlast = gradient.tensor_split([u[0].numel()], 1)
    dy = dy.view(u.shape)
    lr, li = dlast.reshape(x0.shape).permute(1, 2, 0, 3).contiguous()  # lambda, the adjoint
    dsystems, du, dv = torch.zeros_like(systems), skip * dy, torch.empty_like(dy)
    for k in range(u.shape[1] - 1, -1, -1):
        (pr, pi), (xr, xi), upstream = states[k], states[k + 1], dy[:, k]
        lr.addcmul_(cr, upstream)
        li.addcmul_(ci, upstream, value=-1)
        sr, si = (lr * pr).addcmul_(li, pi), (li * pr).addcmul_(lr, pi, value=-1)
        dbr = (sr * v[:, k]).addcmul_(lr, u[:, k])
        dbi = (si * v[:, k]).addcmul_(li, u[:, k])
        terms = sr, si, dbr, dbi, upstream * xr, -upstream * xi
        for sums, term in zip(dsystems, terms, strict=True):
            sums += term.sum(1)
        du[:, k] += (br * lr).addcmul_(bi, li).sum(0)
        dv[:, k] = (br * sr).addcmul_(bi, si).sum(0)
        tr, ti = torch.addcmul(ar, br, v[:, k]), torch.addcmul(ai, bi, v[:, k])
        lr, li = (tr * lr).addcmul_(ti, li), (tr * li).addcmul_(ti, lr, value=-1)
    dx0 = torch.stack([lr, li]).permute(2, 0, 1, 3)
    return dsystems, (dy * u).sum((0, 1)), du, dv, dx0


def _compiled_forward(
    systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor
) -> tuple[Tensor]:
    y, last = u.new_empty(u.shape), u.new_empty(x0.shape)
    loop = forward_loop(side_by_side(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, y, last)))
    return (torch.cat([y.flatten(1), last.flatten(1)], 1),)


def _compiled_backward(
    systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor, _: Tensor, gradient: Tensor
) -> Tensors:
    dy, dlast = gradient.tensor_split([u[0].numel()], 1)
    dy, dlast = dy.view(u.shape), dlast.reshape(x0.shape)
    gradients = (
        *(t.new_zeros(t.shape) for t in (systems, skip)),
        *(t.new_empty(t.shape) for t in (u, v, x0)),
    )
    loop = backward_loop(side_by_side(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, dy, dlast, *gradients)))
    return gradients


LOOP = ClosedForm(_forward, _backward, one_by_one)
COMPILED_LOOP = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (systems, skip, u, v, x0; y and last to fill)."""

    @compiled(wide, dtype)
    def modulated_forward(systems, skip, u, v, x0, y, last):  # type: ignore[no-untyped-def]
        strings, length, channels = u.shape
        modes = systems.shape[1]
        part = modes * channels  # from a real part to its imaginary one
        for string in range(strings):
            start = string * length * channels
            for d in range(0, channels, wide):
                gain = load(skip, d, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    store(y, k, mul(gain, load(u, k, wide)))
            for at in range(0, part, wide):
                d, state = at % channels, string * 2 * part + at
                ar, ai = load(systems, at, wide), load(systems, at + part, wide)
                br, bi = load(systems, at + 2 * part, wide), load(systems, at + 3 * part, wide)
                cr, ci = load(systems, at + 4 * part, wide), load(systems, at + 5 * part, wide)
                xr, xi = load(x0, state, wide), load(x0, state + part, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = sub(fma(tr, xr, mul(br, drive)), mul(ti, xi))
                    xi = fma(tr, xi, fma(ti, xr, mul(bi, drive)))
                    xr = new
                    store(y, k, sub(fma(cr, xr, load(y, k, wide)), mul(ci, xi)))
                store(last, state, xr)
                store(last, state + part, xi)

    return modulated_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (systems, skip, u, v, x0, dy, dlast; gradients to fill).

    The gradients are those of systems and skip, which must come as zeros, and of u, v and x0.
    """

    @compiled(wide, dtype)
    def modulated_backward(systems, skip, u, v, x0, dy, dlast, dsystems, dskip, du, dv, dx0):  # type: ignore[no-untyped-def]
        strings, length, channels = u.shape
        modes = systems.shape[1]
        part, pair = modes * channels, 2 * wide
        states = np.empty((length + 1) * pair, u.dtype)
        for string in range(strings):
            start = string * length * channels
            for d in range(0, channels, wide):
                gain, sums = load(skip, d, wide), load(dskip, d, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    upstream = load(dy, k, wide)
                    store(du, k, mul(gain, upstream))
                    store(dv, k, zero(gain))
                    sums = fma(upstream, load(u, k, wide), sums)
                store(dskip, d, sums)
            for at in range(0, part, wide):
                d, state = at % channels, string * 2 * part + at
                ar, ai = load(systems, at, wide), load(systems, at + part, wide)
                br, bi = load(systems, at + 2 * part, wide), load(systems, at + 3 * part, wide)
                cr, ci = load(systems, at + 4 * part, wide), load(systems, at + 5 * part, wide)
                xr, xi = load(x0, state, wide), load(x0, state + part, wide)
                place = 0
                for k in range(start + d, start + d + length * channels, channels):
                    store(states, place, xr)
                    store(states, place + wide, xi)
                    place += pair
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = sub(fma(tr, xr, mul(br, drive)), mul(ti, xi))
                    xi = fma(tr, xi, fma(ti, xr, mul(bi, drive)))
                    xr = new
                lr, li = load(dlast, state, wide), load(dlast, state + part, wide)  # lambda
                dar, dai, dbr, dbi = zero(ar), zero(ar), zero(ar), zero(ar)
                dcr, dci = zero(ar), zero(ar)
                for back in range(length - 1, -1, -1):
                    k = start + d + back * channels
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    upstream = load(dy, k, wide)
                    dcr, dci = fma(upstream, xr, dcr), sub(dci, mul(upstream, xi))
                    lr, li = fma(upstream, cr, lr), sub(li, mul(upstream, ci))
                    xr, xi = load(states, back * pair, wide), load(states, back * pair + wide, wide)
                    slope_r = fma(lr, xr, mul(li, xi))
                    slope_i = sub(mul(li, xr), mul(lr, xi))
                    dar, dai = add(dar, slope_r), add(dai, slope_i)
                    dbr = fma(lr, drive, fma(slope_r, factor, dbr))
                    dbi = fma(li, drive, fma(slope_i, factor, dbi))
                    store(du, k, fma(lr, br, fma(li, bi, load(du, k, wide))))
                    store(dv, k, fma(slope_r, br, fma(slope_i, bi, load(dv, k, wide))))
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = fma(tr, lr, mul(ti, li))
                    li = sub(mul(tr, li), mul(ti, lr))
                    lr = new
                store(dx0, state, lr)
                store(dx0, state + part, li)
                store(dsystems, at, add(load(dsystems, at, wide), dar))
                for offset, found in ((1, dai), (2, dbr), (3, dbi), (4, dcr), (5, dci)):
                    here = at + offset * part
                    store(dsystems, here, add(load(dsystems, here, wide), found))

    return modulated_backward
