"""The averages of RWKV-4 times their gate, compiled: what stands between its products.

    y_t = sigmoid(r_t) wkv_t,    wkv as in `lrbench.scan.diagonal.triples`

k, v and r may be tables, of pairs of symbols, looked up position by position: nothing of the size
of the strings is made of them, and their gradients are added up in the cache.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

WIDE = 16  # the compiled loops take so many channels at a time


def compiles(k: Tensor) -> bool:
    """Tell whether the compiled loops can be used for keys k (..., D)."""
    return k.shape[-1] % WIDE == 0 and k.numel() > 0 and usable(k)


def gated_averages(
    k: Tensor, v: Tensor, r: Tensor, index: Tensor, w: Tensor, u: Tensor, m: Tensor, s: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return y (B, T, D) and the state (m, s) after the last position.

    Args:
        k, v, r: tables (N, D).
        index: which rows of theirs belong to which position, (B, T).
        w, u: decay > 0 and the bonus of the present position, (D,).
        m, s: the average and log weight before the first position, (B, D) each.
    """
    result = AVERAGES(k, v, r, index, w, u, m, s)
    after, count = m.numel(), index.numel() * k.shape[1]
    y, m, s = result.split([count, after, after])
    batch, length = index.shape
    return y.view(batch, length, -1), (m.view(batch, -1), s.view(batch, -1))


def _forward(
    k: Tensor, v: Tensor, r: Tensor, index: Tensor, w: Tensor, u: Tensor, m: Tensor, s: Tensor
) -> tuple[Tensor]:
    from lrbench.scan.compiled.scans.triples import forward_loop

    after, count = m.numel(), index.numel() * k.shape[1]
    result = k.new_empty(count + 2 * after)
    y, m_after, s_after = result.split([count, after, after])
    m_after.copy_(m.flatten())
    s_after.copy_(s.flatten())
    loop = forward_loop(DTYPES[k.dtype])
    loop(*map(array, (k, v, r, index, w, u, m_after, s_after, y)))
    return (result,)


def _backward(
    k: Tensor,
    v: Tensor,
    r: Tensor,
    index: Tensor,
    w: Tensor,
    u: Tensor,
    m: Tensor,
    s: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    from lrbench.scan.compiled.scans.triples import backward_loop

    after, count = m.numel(), index.numel() * k.shape[1]
    dy, dm, ds = gradient.split([count, after, after])
    dm, ds = dm.clone().view(m.shape), ds.clone().view(s.shape)
    sums = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (k, v, r, w, u)]
    loop = backward_loop(DTYPES[k.dtype])
    inputs = k, v, r, index, w, u, m.flatten(), s.flatten(), dy, dm.flatten(), ds.flatten()
    loop(*map(array, (*inputs, *sums)))
    return *sums, dm, ds


AVERAGES = ClosedForm(_forward, _backward, one_by_one, needs_result=False)
