"""The exponentially weighted averages of RWKV-4, stable for keys k of any size.

    a_t = e^{-w} a_{t-1} + e^{k_t} v_t,   b_t = e^{-w} b_{t-1} + e^{k_t}
    y_t = (a_{t-1} + e^{u + k_t} v_t) / (b_{t-1} + e^{u + k_t})

e^k overflows, so a and b are kept as a triple (p, q, o) with a = p e^o, b = q e^o. Public code lets
o be a running maximum. Here, between positions, o = log b and q = 1, which is the triple with one
number less to carry: p is the average m = a / b itself, s = log b its weight. One position is

    d_t = v_t - m_{t-1},  e_t = sigmoid(u + k_t - s_{t-1}),  g_t = sigmoid(w + k_t - s_{t-1})
    y_t = m_{t-1} + e_t d_t,  m_t = m_{t-1} + g_t d_t,  s_t = log(e^{s_{t-1} - w} + e^{k_t})

where nothing can overflow, and no weight can vanish from under a fraction. The state of no position
is m = 0, s = EMPTY: then e = g = 1 to the last bit and y_1 = m_1 = v_1.

The scan is over triples with a running maximum: of i, then j over n positions,

    o = max(o_i - n w, o_j),   p = p_i e^{o_i - n w - o} + p_j e^{o_j - o},   q likewise.

Adjoints (M of m, S of s) are two linear recurrences with coefficients 1 - g_t, run backwards:

    M_{t-1} = (1 - g_t) M_t + (1 - e_t) y'_t,     dv_t = g_t M_t + e_t y'_t
    S_{t-1} = (1 - g_t) S_t - x_t,                dk_t = g_t S_t + x_t
    x_t = e_t (1 - e_t) d_t y'_t + g_t (1 - g_t) d_t M_t  (the first term is du_t)

and dw_t = x_t - du_t - (1 - g_t) S_t. Layout: time first, so that a position is contiguous.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.scan.algorithms.tree import tree
from lrbench.scan.transitions import Diagonal

EMPTY = -1e38  # a finite log of nothing: differences of it stay numbers
Triple = tuple[Tensor, Tensor, Tensor]


def weighted_averages(
    k: Tensor, v: Tensor, w: Tensor, u: Tensor, state: tuple[Tensor, Tensor], mode: str
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return y (B, T, C) and the state (m, s) after the last position.

    Args:
        k, v: keys and values, (B, T, C).
        w, u: decay > 0 and the bonus of the present position, (C,).
        state: the average m and log weight s before the first position, (B, C) each.
        mode: "sequential", a loop, or "scan", of depth 2 log2 T.
    """
    form = {"sequential": LOOP, "scan": SCAN}[mode]
    m, s = state
    rates = torch.stack([u, w]).expand(len(m), 2, -1)
    result = form(k, v, rates, m, s)
    return result[:, :-2], (result[:, -2], result[:, -1])


def _loop_forward(k: Tensor, v: Tensor, rates: Tensor, m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    """Return y_1..y_T, m_T, s_T as (B, T + 2, C); kept: (e, g) (B, T, 2, C) and d (B, T, C)."""
    keys, values = k.transpose(0, 1), v.transpose(0, 1)
    result = keys.new_empty(len(keys) + 2, *m.shape)
    gates, surprise = _buffers(keys)
    m, s = result[-2].copy_(m), result[-1].copy_(s)
    both, w, x = rates.transpose(0, 1).contiguous(), rates[:, 1].contiguous(), torch.empty_like(m)
    for key, value, y, gate, d in zip(keys, values, result[:-2], gates, surprise, strict=True):
        torch.sub(key, s, out=x)
        torch.add(both, x, out=gate).sigmoid_()
        e, g = gate
        torch.sub(value, m, out=d)
        torch.addcmul(m, e, d, out=y)
        m.addcmul_(g, d)
        torch.logaddexp(s.sub_(w), key, out=s)
    return _batch_first(result, gates, surprise)


def _loop_backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    _k, _v, rates, _m, _s, _result, gates, surprise, gradient = tensors
    upstream = gradient.transpose(0, 1)
    dm, ds = upstream[-2].contiguous().clone(), upstream[-1].contiguous().clone()
    length = len(upstream) - 2
    dk, dv = torch.empty_like(upstream[:-2]), torch.empty_like(upstream[:-2])
    drates = torch.zeros_like(rates, memory_format=torch.contiguous_format)
    du, dw = torch.zeros_like(dm), torch.zeros_like(dm)
    through, x = torch.empty_like(dm), torch.empty_like(dm)
    gate, d = gates.permute(1, 2, 0, 3), surprise.transpose(0, 1)
    for t in range(length - 1, -1, -1):
        e, g = gate[t]
        torch.mul(upstream[t], e, out=x)
        torch.mul(dm, g, out=through)
        torch.add(x, through, out=dv[t])
        dm.add_(upstream[t]).sub_(dv[t])
        x.addcmul_(x, e, value=-1).mul_(d[t])
        du.add_(x)
        dw.sub_(x)
        x.add_(through.addcmul_(through, g, value=-1).mul_(d[t]))
        torch.addcmul(x, ds, g, out=dk[t])
        dw.sub_(ds.sub_(dk[t]))
    drates[:, 0], drates[:, 1] = du, dw
    return dk.transpose(0, 1), dv.transpose(0, 1), drates, dm, ds


def _scan_forward(k: Tensor, v: Tensor, rates: Tensor, m: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    keys, values = k.transpose(0, 1), v.transpose(0, 1)
    w = rates[:, 1]
    p, o = torch.cat([m[None], values]), torch.cat([s[None], keys])
    p, q, o = _prefixes((p, torch.ones_like(p), o), w, 1)
    averages, weights = p / q, o + q.log()
    gates, surprise = _buffers(keys)
    torch.add((keys - weights[:-1])[:, None], rates.transpose(0, 1), out=gates).sigmoid_()
    torch.sub(values, averages[:-1], out=surprise)
    y = torch.addcmul(averages[:-1], gates[:, 0], surprise)
    return _batch_first(torch.cat([y, averages[-1:], weights[-1:]]), gates, surprise)


def _scan_backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    *_, gates, surprise, gradient = tensors
    upstream, (e, g) = gradient[:, :-2], gates.unbind(2)
    keep, direct = 1 - g, upstream * e
    adjoints = _run_back(keep, upstream - direct, gradient[:, -2])
    through = adjoints[:, 1:] * g
    du = direct * (1 - e) * surprise
    x = du + through * keep * surprise
    logs = _run_back(keep, -x, gradient[:, -1])
    dk = torch.addcmul(x, g, logs[:, 1:])
    dw = -(logs[:, :-1] + du).sum(1)
    drates = torch.stack([du.sum(1), dw], dim=1)
    return dk, direct + through, drates, adjoints[:, 0], logs[:, 0]


def _run_back(keep: Tensor, inputs: Tensor, last: Tensor) -> Tensor:
    """Return x_0..x_T, (B, T + 1, C), of x_{t-1} = keep_t x_t + inputs_t from x_T."""
    earlier = tree(Diagonal(keep.flip(1)), inputs.flip(1), last)
    return torch.cat([earlier.flip(1), last[:, None]], dim=1)


def _prefixes(triples: Triple, w: Tensor, span: int) -> Triple:
    """Join each triple (L, B, C) with all before it; each but the first is of `span` positions."""
    length = len(triples[0])
    if length == 1:
        return triples
    pairs = length // 2
    first, second = _every(triples, 0, 2 * pairs), _every(triples, 1, 2 * pairs)
    odd = _prefixes(_join(first, second, span * w), w, 2 * span)
    later = _every(triples, 2, length)
    even = _join(_every(odd, 0, len(later[0]), 1), later, span * w)
    joined = tuple(torch.empty_like(part) for part in triples)
    for out, start, at_even, at_odd in zip(joined, triples, even, odd, strict=True):
        out[0], out[2::2], out[1::2] = start[0], at_even, at_odd
    p, q, o = joined
    return p, q, o


def _every(triples: Triple, first: int, end: int, step: int = 2) -> Triple:
    p, q, o = (part[first:end:step] for part in triples)
    return p, q, o


def _join(earlier: Triple, later: Triple, decay: Tensor) -> Triple:
    """Return the triples of `earlier`, decayed over the positions of `later`, then `later`."""
    (p, q, o), (p_later, q_later, o_later) = earlier, later
    decayed = o - decay
    top = torch.maximum(decayed, o_later)
    old, new = (decayed - top).exp_(), (o_later - top).exp_()
    return (p * old).addcmul_(p_later, new), (q * old).addcmul_(q_later, new), top


def _buffers(keys: Tensor) -> tuple[Tensor, Tensor]:
    length, batch, channels = keys.shape
    return keys.new_empty(length, 2, batch, channels), keys.new_empty(keys.shape)


def _batch_first(result: Tensor, gates: Tensor, surprise: Tensor) -> tuple[Tensor, ...]:
    return result.transpose(0, 1), gates.permute(2, 0, 1, 3), surprise.transpose(0, 1)


LOOP = ClosedForm(_loop_forward, _loop_backward, fold)
SCAN = ClosedForm(_scan_forward, _scan_backward, fold)
