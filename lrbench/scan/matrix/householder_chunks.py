"""The delta rule over chunks of positions: products of matrices and one triangular solve a chunk.

The updates S <- S + (v_i - S e_i) k_i^T of a chunk add up to S = S_0 + sum_i u_i k_i^T, where each
u_i = v_i - S_{i-1} e_i depends on those before it (the WY form of a product of Householder factors,
Bischof & Van Loan 1987; Yang et al. 2024, arXiv:2406.06484, for the delta rule; Yang, Kautz &
Hatamizadeh 2024, arXiv:2412.06464, with a gate). With c_i the sum of log a up to update i,

    (I + L) U = V - (E * e^c) S_0^T,   L_im = e_i . (e^(c_i - c_m) * k_m)  for m < i
    y_t = S_0 (q_t * e^(c_t)) + sum_{m <= t} u_m (q_t . (e^(c_t - c_m) * k_m))
    S   = S_0 * e^(c_C) + sum_m u_m (e^(c_C - c_m) * k_m)^T.

Both solves, for V and for E, are of all chunks at once; only S goes from chunk to chunk. Decays
appear as exponentials of differences that are never positive, so nothing overflows, however strong
a gate is. Where it has one value for each of K channels, each pair of updates costs K exponentials,
unless log a is known to stay so near zero that e^(-c_m) may be taken alone. The solve needs float32
or better.

Shapes: N strings, G chunks of P positions, C = n P updates each; otherwise as in `householder.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

UPDATES = 16  # of a chunk, at most, unless a position has more
SAFE = 30.0  # e to this is far from the largest float32


def delta_chunks(
    keys: Tensor,
    erased: Tensor,
    log_decay: Tensor | None,
    values: Tensor,
    queries: Tensor,
    initial: Tensor,
    least: float = -math.inf,
) -> tuple[Tensor, Tensor]:
    """Return y (N, T, V) and the last state (N, V, K); arguments as for `delta_rule`.

    keys and erased are (N, T, n, K), log_decay (N, T, K), (N, T, 1) or None, never below `least`.
    """
    length, count = keys.shape[1:3]
    chunks = -(-length // max(1, UPDATES // count))
    positions = -(-length // chunks)
    k, e, v = (_chunks(x, positions).flatten(2, 3) for x in (keys, erased, values))
    q = _chunks(queries, positions)
    seen_mask = _mask(positions, count, q)
    if log_decay is None:
        below, seen = e @ k.mT, (q @ k.mT) * seen_mask
        e_now, q_now, k_end, kept = e, q, k, None
    else:
        # below this e to it is 0, and sums of larger numbers would cost the others their digits
        nothing = math.log(torch.finfo(log_decay.dtype).tiny)
        c = _chunks(log_decay.clamp(min=nothing), positions).cumsum(2)
        each = c.repeat_interleave(count, 2)
        last = c[:, :, -1:]
        e_now, q_now, k_end = e * each.exp(), q * c.exp(), k * (last - each).exp()
        kept = last.exp()
        if least * positions > -SAFE:
            k_start = (k * (-each).exp()).mT
            below, seen = e_now @ k_start, (q_now @ k_start) * seen_mask
        else:
            below = _scores(e, k, each, each, _mask(positions * count, 1, e))
            seen = _scores(q, k, c, each, seen_mask)
    solved = torch.linalg.solve_triangular(
        below, torch.cat([v, e_now], -1), upper=False, unitriangular=True
    )
    size = v.shape[-1]
    written, read = solved[..., :size], torch.cat([solved[..., size:], q_now], 2)
    y, state = _from_chunk_to_chunk(written, read, seen, k_end, kept, initial)
    return y[:, :length], state


def _from_chunk_to_chunk(
    written: Tensor,
    read: Tensor,
    seen: Tensor,
    keys: Tensor,
    kept: Tensor | None,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return y (N, G P, V) and the last state.

    written: U of a chunk from S_0 = 0, (N, G, C, V); read: along what S_0 is taken from it and
    added to y, (N, G, C + P, K); seen: the u_m in y, (N, G, P, C); keys: at the end of the chunk,
    (N, G, C, K); kept: e^(c_C), (N, G, 1, K or 1), or None.
    """
    count, state, outputs = written.shape[2], initial, []
    decays = [None] * written.shape[1] if kept is None else kept.unbind(1)
    parts = written.unbind(1), read.unbind(1), seen.unbind(1), keys.unbind(1), decays
    for u, along, attention, k, decay in zip(*parts, strict=True):
        taken = along @ state.mT
        u = u - taken[:, :count]
        outputs.append(torch.baddbmm(taken[:, count:], attention, u))
        state = torch.baddbmm(state if decay is None else state * decay, u.mT, k)
    return torch.cat(outputs, 1), state


def _chunks(x: Tensor, size: int) -> Tensor:
    """Return x (N, T, ...) as (N, G, size, ...), filled up by zeros, which change no state."""
    missing = -x.shape[1] % size
    if missing:
        x = pad(x, (0, 0) * (x.dim() - 2) + (0, missing))
    chunks: Tensor = x.unflatten(1, (-1, size))
    return chunks


def _mask(positions: int, count: int, like: Tensor) -> Tensor:
    """Return ones (positions, positions * count) where an update is not after a position."""
    ones = torch.ones(positions, positions, dtype=like.dtype, device=like.device)
    return ones.tril().repeat_interleave(count, 1)


def _scores(rows: Tensor, k: Tensor, c_rows: Tensor, c: Tensor, mask: Tensor) -> Tensor:
    """Return rows_i . (e^(c_i - c_m) * k_m) where the mask is 1, else 0: (N, G, I, C).

    rows (N, G, I, K) and k (N, G, C, K), c_rows and c likewise, of K channels or one.
    """
    hidden = mask == 0
    if c.shape[-1] == 1:
        differences = (c_rows - c.mT).masked_fill(hidden, -torch.inf)
        return (rows @ k.mT) * differences.exp()
    differences = c_rows[..., :, None, :] - c[..., None, :, :]
    decays = differences.masked_fill(hidden[..., None], -torch.inf).exp()
    return torch.einsum("ngik,ngmk,ngimk->ngim", rows, k, decays)
