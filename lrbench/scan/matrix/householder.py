"""Products of generalised Householder factors with a gate, acting on a matrix: the delta rule.

    S_t = S_{t-1} A_t + W_t,   A_t = Diag(a_t) prod_{j=1..n} (I - e_j k_j^T)
    y_t = S_t q_t

which is n updates of rank one after a decay: read along e, and write the difference along k,

    S <- S Diag(a_t);   for j = 1..n:  S <- S + (v_j - S e_j) k_j^T;   y_t = S q_t.

With e = beta k and v = beta times a value this is the delta rule (Schlag et al. 2021,
arXiv:2102.11174); n > 1 is DeltaProduct (Siems et al. 2025, arXiv:2502.10297). e and k need not be
parallel: an update that only writes has e = 0, one that only forgets has v = 0. beta = 2 and a unit
key make a reflection.

Three ways to compute it, equal up to rounding (`delta_rule`): the loop over updates above, the slow
truth; `householder_chunks.py`, products of matrices over chunks of positions, in whose place
`householder_loops.py` has compiled loops on a processor; and the scan of dense A_t, for small K.

Shapes: N strings, one for each head of each string of a batch; T length; n updates a position;
keys k and e (N, T, n, K), values v (N, T, n, V), log a (N, T, K) or (N, T, 1), queries q (N, T, K),
states S (N, V, K).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.errors import unknown
from lrbench.scan import scan
from lrbench.scan.matrix.householder_chunks import delta_chunks
from lrbench.scan.matrix.householder_loops import DELTA_RULE
from lrbench.scan.transitions import BlockDiagonal, Structured


@dataclass(frozen=True)
class HouseholderProducts(Structured):
    """A_1..A_T, acting on the rows of a state (N, V, K).

    keys k and erased directions e: (N, T, n, K); log_decay: log a, (N, T, K), (N, T, 1), or None
    for a = 1; least: what log a is never below, -infinity where nothing is known.
    """

    keys: Tensor
    erased: Tensor
    log_decay: Tensor | None = None
    least: float = -math.inf

    def act(self, position: int, state: Tensor) -> Tensor:
        if self.log_decay is not None:
            state = state * self.log_decay[:, position, None].exp()
        factors = zip(
            self.keys[:, position].unbind(1), self.erased[:, position].unbind(1), strict=True
        )
        for key, erased in factors:
            state = state - (state @ erased[..., None]) * key[:, None]
        return state

    def written(self) -> BlockDiagonal:  # for all rows at once: size one over h
        size = self.keys.shape[-1]
        eye = torch.eye(size, dtype=self.keys.dtype, device=self.keys.device)
        product = eye.expand(*self.keys.shape[:2], size, size)
        for key, erased in self._factors():
            product = product - (product @ erased[..., None]) * key[..., None, :]
        if self.log_decay is not None:
            product = self.log_decay.exp()[..., None] * product
        return BlockDiagonal(product.mT[:, :, None])

    def writes(self, values: Tensor) -> Tensor:
        """Return W_1..W_T, (N, T, V, K), for values (N, T, n, V)."""
        first = values[:, :, 0, :, None] * self.keys[:, :, 0, None, :]
        for (key, erased), value in zip(self._factors()[1:], values.unbind(2)[1:], strict=True):
            first = first + (value[..., None] - first @ erased[..., None]) * key[..., None, :]
        return first

    def _factors(self) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.keys.unbind(2), self.erased.unbind(2), strict=True))


DeltaRule = Callable[[HouseholderProducts, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def delta_rule(
    transition: HouseholderProducts, values: Tensor, queries: Tensor, initial: Tensor, mode: str
) -> tuple[Tensor, Tensor]:
    """Return y (N, T, V) and the state after the last position, (N, V, K).

    Args:
        transition: A_1..A_T.
        values: v, (N, T, n, V).
        queries: q, (N, T, K).
        initial: S_0, (N, V, K).
        mode: a name in MODES; all agree up to rounding, gradients included.

    Raises UserError for another mode.
    """
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    return MODES[mode](transition, values, queries, initial)


def _loop(
    transition: HouseholderProducts, values: Tensor, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor]:
    updates = transition.keys, transition.erased, values
    steps = zip(*(x.flatten(1, 2).unbind(1) for x in updates), strict=True)
    decays = None if transition.log_decay is None else transition.log_decay.exp().unbind(1)
    count, state, outputs = transition.keys.shape[2], initial, []
    for t, query in enumerate(queries.unbind(1)):
        if decays is not None:
            state = state * decays[t][:, None]
        for _ in range(count):
            key, erased, value = next(steps)
            change = value[..., None] - state @ erased[..., None]
            state = torch.baddbmm(state, change, key[:, None])
        outputs.append((state @ query[..., None])[..., 0])
    return torch.stack(outputs, 1), state


def _chunked(
    transition: HouseholderProducts, values: Tensor, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor]:
    keys, erased, log_decay = transition.keys, transition.erased, transition.log_decay
    found = _compiled(transition, values, queries, initial)
    if found is not None:
        return found
    return delta_chunks(keys, erased, log_decay, values, queries, initial, transition.least)


def _compiled(
    transition: HouseholderProducts, values: Tensor, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return the same by compiled loops; None where they cannot be used.

    Loops check no shape, so what may be broadcast is.
    """
    keys, log_decay = transition.keys, transition.log_decay
    strings, length, count, size = keys.shape
    decays = keys[:, :, 0, :0] if log_decay is None else log_decay.exp()
    rates = decays.shape[-1] if decays.shape[-1] < 2 else size
    inputs = [  # of one head
        values.expand(strings, length, count, -1)[:, :, None],
        keys[:, :, None],
        transition.erased.expand_as(keys)[:, :, None],
        decays.expand(strings, length, rates)[:, :, None],
        queries.expand(strings, length, size)[:, :, None],
        initial.expand(strings, values.shape[-1], size)[:, None],
    ]
    if not DELTA_RULE.usable(*inputs):
        return None
    y, state = DELTA_RULE(*inputs)
    return y[:, :, 0], state[:, 0]


def _dense(
    transition: HouseholderProducts, values: Tensor, queries: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor]:
    states = scan(transition, transition.writes(values), initial, "tree")
    return (states @ queries[..., None])[..., 0], states[:, -1]


MODES: dict[str, DeltaRule] = {"sequential": _loop, "chunked": _chunked, "scan": _dense}
