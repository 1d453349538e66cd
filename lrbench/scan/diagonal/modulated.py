"""Diagonal systems whose transition is modulated by their input, one system per channel:

    x_k = (a + b v_k) x_{k-1} + b u_k,    y_k = 2 Re(C x_k) + skip u_k

elementwise over the M numbers of a channel's state, with real inputs u_k and factors v_k of the
channel. The transitions of all positions are M complex numbers for each number of the input, so
that a scan of trees (`modulated_states`) is slow on CPU: a loop makes each where it is used.

Shapes: a, b, c (D, M) complex; skip (D); u, v (B, T, D); x_0 (B, D, M) complex. In loops real and
imaginary parts are apart and channels last: systems (6, M, D) are the parts of a, b and of 2 C in
turn, x_0 and the last state (B, 2, M, D).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.algorithms.tree import tree
from lrbench.scan.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.transitions import Diagonal

WIDEST, NARROWEST = 16, 4  # channels side by side in a compiled loop; with fewer it is not worth it


def modulated_scan(
    a: Tensor, b: Tensor, c: Tensor, skip: Tensor, u: Tensor, v: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y (B, T, D) and the last state (B, D, M) from the state x (B, D, M) before."""
    wide = lanes(len(a))
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


def lanes(channels: int) -> int:
    """Return how many of D channels go side by side: a power of two, at most `WIDEST`."""
    return min(channels & -channels, WIDEST)


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


def _backward(
    systems: Tensor,
    skip: Tensor,
    u: Tensor,
    v: Tensor,
    x0: Tensor,
    _: Tensor,
    states: Tensor,
    gradient: Tensor,
) -> Tensors:
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
    from lrbench.scan.compiled.scans.modulated import forward_loop

    y, last = u.new_empty(u.shape), u.new_empty(x0.shape)
    loop = forward_loop(lanes(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, y, last)))
    return (torch.cat([y.flatten(1), last.flatten(1)], 1),)


def _compiled_backward(
    systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor, _: Tensor, gradient: Tensor
) -> Tensors:
    from lrbench.scan.compiled.scans.modulated import backward_loop

    dy, dlast = gradient.tensor_split([u[0].numel()], 1)
    dy, dlast = dy.view(u.shape), dlast.reshape(x0.shape)
    gradients = (
        *(t.new_zeros(t.shape) for t in (systems, skip)),
        *(t.new_empty(t.shape) for t in (u, v, x0)),
    )
    loop = backward_loop(lanes(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, dy, dlast, *gradients)))
    return gradients


LOOP = ClosedForm(_forward, _backward, one_by_one)
COMPILED_LOOP = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)
