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
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from lrbench.errors import unknown
from lrbench.scan import scan
from lrbench.scan.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.transitions import Diagonal

MODES = ("sequential", "scan")
WIDEST, NARROWEST = 16, 4  # channels side by side in a compiled loop; with fewer it is not worth it


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
    if mode == "scan":
        return _written_out(rates, skip, steps, x, b, c, initial, reach)
    wide = lanes(x.shape[2])
    fits = x.numel() > 0 and wide >= NARROWEST and usable(x, "selective_scan", wide)
    out = _form(reach, fits)(rates, skip, steps, x, b, c, initial)
    y, last = out.tensor_split([x.shape[1]], 1)
    return y, last


def lanes(channels: int) -> int:
    """Return how many of E channels go side by side: a power of two, at most `WIDEST`."""
    return min(channels & -channels, WIDEST)


def _written_out(
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
    reach: float,
) -> tuple[Tensor, Tensor]:
    """Compute it by a scan over transitions (B, T, N E)."""
    decays = reach * (steps[:, :, None] * rates).exp() - (reach - 1)
    inputs = b[..., None] * (steps * x)[:, :, None]
    states = scan(Diagonal(decays.flatten(2)), inputs.flatten(2), initial.flatten(1), "auto")
    states = states.view_as(inputs)
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


def _forward(
    reach: float,
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
) -> tuple[Tensor]:
    """Return y and the last state in rows behind each other, (B, T + N, E)."""
    length, h = x.shape[1], initial
    out = x.new_empty(len(x), length + len(rates), x.shape[2])
    for t in range(length):
        decay = _fallen(reach, rates, steps[:, t]).sub_(reach - 1)
        h = torch.addcmul(decay * h, b[:, t, :, None], (steps[:, t] * x[:, t])[:, None])
        out[:, t] = torch.addcmul((c[:, t, None] @ h)[:, 0], skip, x[:, t])
    out[:, length:] = h
    return (out,)


def _backward(
    reach: float,
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
    gradient: Tensor,
) -> Tensors:
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


def _compiled_forward(
    reach: float,
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
) -> tuple[Tensor]:
    from lrbench.scan.compiled.scans.selective import forward_loop

    out = x.new_empty(len(x), x.shape[1] + len(rates), x.shape[2])
    loop = forward_loop(lanes(x.shape[2]), DTYPES[x.dtype])
    inputs = rates, skip, steps, x, b, c, initial
    loop(*map(array, inputs), array(x).dtype.type(reach), array(out))
    return (out,)


def _compiled_backward(
    reach: float,
    rates: Tensor,
    skip: Tensor,
    steps: Tensor,
    x: Tensor,
    b: Tensor,
    c: Tensor,
    initial: Tensor,
    gradient: Tensor,
) -> Tensors:
    from lrbench.scan.compiled.scans.selective import backward_loop

    inputs = rates, skip, steps, x, b, c, initial
    gradients = (
        *(t.new_zeros(t.shape) for t in (rates, skip)),
        *(t.new_empty(t.shape) for t in inputs[2:]),
    )
    loop = backward_loop(lanes(x.shape[2]), DTYPES[x.dtype])
    number = array(x).dtype.type(reach)
    loop(*map(array, inputs), number, *map(array, (gradient, *gradients)))
    return gradients
