"""Matrix states under one decay a head, in chunks: the state space duality of Mamba-2.

Dao & Gu 2024 (arXiv:2405.21060). A head writes v_t along k_t into a matrix and reads it along q_t:

    S_t = a_t S'_{t-1} + w_t v_t k_t^T,   y_t = S_t q_t,   S'_t = S_t + l_t v_t k_t^T

where l_t, of which most models have none, is written behind what is read: by the trapezoidal rule
of Mamba-3 a step takes up once more what was written before it. Within a chunk of C positions this
is attention without softmax, weighed by the decays between positions; only S' goes on from it:

    y_i = L_i0 S'_0 q_i + sum_{m < i} L_im (w_m + l_m) (q_i . k_m) v_m + w_i (q_i . k_i) v_i
    S'  = L_C0 S'_0 + sum_m L_Cm (w_m + l_m) v_m k_m^T
    L_im = a_i a_{i-1} .. a_{m+1},   by rows:  L_i = a_i L_{i-1} + e_i,  L_0 = e_0

Public code takes L as exponentials of differences of sums of log a, which a decay below zero has
not. Rows need no logarithm, and hold for every a, zero as well. They are a scan themselves, and so
have a backward of their own.

Two ways, equal up to rounding (`dual_scan`): `sequential`, the first line in a loop, is the slow
truth; in place of `chunked` there are compiled loops on a processor (`duality_loops.py`).

Shapes: B strings, T length, H heads; a, w and l (B, T, H); k and q (B, T, H or 1, N), 1 for those
that all heads share; v (B, T, H, P); S (B, H, P, N). In chunks (B, H, G, C, ..).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.errors import unknown
from lrbench.scan import scan
from lrbench.scan.matrix.duality_loops import DUAL_SCAN
from lrbench.scan.transitions import Diagonal

POSITIONS = 24  # of a chunk, at most


@dataclass(frozen=True)
class Writes:
    """What is written: v w k^T before a position is read, v l k^T behind it.

    keys k (B, T, H or 1, N), values v (B, T, H, P), now w (B, T, H), later l (B, T, H) or None.
    """

    keys: Tensor
    values: Tensor
    now: Tensor
    later: Tensor | None = None


def dual_scan(
    decays: Tensor, writes: Writes, queries: Tensor, initial: Tensor, mode: str
) -> tuple[Tensor, Tensor]:
    """Return y (B, T, H, P) and S' after the last position, (B, H, P, N).

    Args:
        decays: a, (B, T, H).
        writes: v, k, w and l.
        queries: q, (B, T, H or 1, N).
        initial: S' before, (B, H, P, N).
        mode: a name in MODES.

    Raises UserError for another mode.
    """
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    return MODES[mode](decays, writes, queries, initial)


def _loop(
    decays: Tensor, writes: Writes, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor]:
    state, outputs = initial, []
    for t in range(decays.shape[1]):
        outer = writes.values[:, t, :, :, None] * writes.keys[:, t, :, None]
        state = decays[:, t, :, None, None] * state + writes.now[:, t, :, None, None] * outer
        outputs.append((state @ queries[:, t, ..., None])[..., 0])
        if writes.later is not None:
            state = state + writes.later[:, t, :, None, None] * outer
    return torch.stack(outputs, 1), state


def _chunked(
    decays: Tensor, writes: Writes, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor]:
    if (found := _compiled(decays, writes, queries, initial)) is not None:
        return found
    length = decays.shape[1]
    size = -(-length // -(-length // POSITIONS))
    a, now = (_chunks(x, size, filling) for x, filling in ((decays, 1.0), (writes.now, 0.0)))
    k, v, q = (_chunks(x, size, 0.0) for x in (writes.keys, writes.values, queries))
    before, within = decay_products(a).split([1, size], -1)
    if writes.later is None:
        within = within * now[..., None, :]
        last = within[..., -1, :]
    else:
        both = now + _chunks(writes.later, size, 0.0)
        last = within[..., -1, :] * both
        within = (within * both[..., None, :]).tril(-1) + now.diag_embed()
    added = (v * last[..., None]).mT @ k  # (B, H, G, P, N): of a chunk, at its end
    states = _at_starts(before[..., -1:, :], added, initial)
    y = ((q @ k.mT) * within) @ v + before * (q @ states[:, :, :-1].mT)
    return y.flatten(2, 3)[:, :, :length].transpose(1, 2), states[:, :, -1]


def _compiled(
    decays: Tensor, writes: Writes, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return the same by compiled loops; None where they cannot be used.

    Loops check no shape, so what may be broadcast is.
    """
    keys, values = writes.keys, writes.values
    strings, length, heads, _ = values.shape
    own = 1 if keys.shape[2] == queries.shape[2] == 1 else heads
    keys, queries = (x.expand(strings, length, own, keys.shape[-1]) for x in (keys, queries))
    decays, now = (x.expand(strings, length, heads) for x in (decays, writes.now))
    later = writes.later
    later = now[..., :0] if later is None else later.expand(strings, length, heads)
    initial = initial.expand(strings, heads, values.shape[-1], keys.shape[-1])
    inputs = values, decays, keys, queries, now, later, initial
    return DUAL_SCAN(*inputs) if DUAL_SCAN.usable(*inputs) else None


def decay_products(decays: Tensor) -> Tensor:
    """Return L (.., C, 1 + C), from before a chunk and from each of its positions, to each.

    decays: a, (.., C), of any sign.
    """
    size = decays.shape[-1]
    values = decays.reshape(-1, size, 1).expand(-1, -1, 1 + size)
    eye = torch.eye(1 + size, dtype=decays.dtype, device=decays.device)
    inputs, first = eye[1:].expand_as(values), eye[0].expand(len(values), -1)
    return scan(Diagonal(values), inputs, first).view(*decays.shape, 1 + size)


def _at_starts(kept: Tensor, added: Tensor, initial: Tensor) -> Tensor:
    """Return the states before each chunk and after the last, (B, H, G + 1, P, N).

    kept: (B, H, G, 1, 1), what is left of a state; added: (B, H, G, P, N).
    """
    states = [initial]
    for part, new in zip(kept.unbind(2), added.unbind(2), strict=True):
        states.append(torch.addcmul(new, part, states[-1]))
    return torch.stack(states, 2)


def _chunks(x: Tensor, size: int, filling: float) -> Tensor:
    """Return x (B, T, H, ..) as (B, H, G, size, ..), filled up at its end."""
    missing = -x.shape[1] % size
    if missing:
        x = pad(x, (0, 0) * (x.dim() - 2) + (0, missing), value=filling)
    chunks: Tensor = x.transpose(1, 2).unflatten(2, (-1, size))
    return chunks


Way = Callable[[Tensor, Writes, Tensor, Tensor], tuple[Tensor, Tensor]]
MODES: dict[str, Way] = {"sequential": _loop, "chunked": _chunked}
