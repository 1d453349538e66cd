"""Diagonal systems whose transition is modulated by their input, one system per channel:

    x_k = (a + b v_k) x_{k-1} + b u_k,    y_k = 2 Re(C x_k) + skip u_k

elementwise over the M numbers of a channel's state, with real inputs u_k and factors v_k of the
channel. The transitions of all positions are M complex numbers for each number of the input: a
compiled loop makes each where it is used. Without one, the diagonal scan has them written out.

Shapes: a, b, c (D, M) complex; skip (D); u, v (B, T, D); x_0 (B, D, M) complex.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.sequential import sequential
from lrbench.scan.transitions import Diagonal, Transition

Algorithm = Callable[[Transition, Tensor, Tensor], Tensor]

WIDEST, NARROWEST = 16, 4  # channels side by side in a compiled loop; with fewer it is not worth it


def modulated_scan(
    a: Tensor, b: Tensor, c: Tensor, skip: Tensor, u: Tensor, v: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y (B, T, D) and the last state (B, D, M) from the state x (B, D, M) before."""
    if usable(u) and lanes(len(a)) >= NARROWEST:
        return _compiled_scan(a, b, c, skip, u, v, x)
    states = modulated_states(a, b, u, v, x)
    return 2 * (c * states).sum(-1).real + skip * u, states[:, -1]


def modulated_states(
    a: Tensor, b: Tensor, u: Tensor, v: Tensor, x: Tensor, algorithm: Algorithm = sequential
) -> Tensor:
    """Return the states (B, T, D, M) by a scan over transitions that are written out."""
    values = a + b * v[..., None]
    inputs = b * u[..., None]
    states = algorithm(Diagonal(values.flatten(2)), inputs.flatten(2), x.flatten(1))
    return states.view(*u.shape, -1)


def _compiled_scan(
    a: Tensor, b: Tensor, c: Tensor, skip: Tensor, u: Tensor, v: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Put channels last, as in u; y and the last state come out side by side."""
    systems = torch.stack([part for z in (a, b, 2 * c) for part in (z.real.T, z.imag.T)])
    both = COMPILED_LOOP(systems, skip, u, v, torch.view_as_real(x).permute(0, 3, 2, 1))
    y, last = both.tensor_split([u[0].numel()], 1)
    real, imaginary = last.unflatten(1, (2, *a.T.shape)).mT.unbind(1)
    return y.unflatten(1, u.shape[1:]), torch.complex(real, imaginary)


def lanes(channels: int) -> int:
    """Return how many of D channels go side by side: a power of two, at most `WIDEST`."""
    return min(channels & -channels, WIDEST)


def _forward(systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor) -> tuple[Tensor]:
    from lrbench.scan.compiled.modulated import forward_loop

    y, last = u.new_empty(u.shape), u.new_empty(x0.shape)
    loop = forward_loop(lanes(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, y, last)))
    return (torch.cat([y.flatten(1), last.flatten(1)], 1),)


def _backward(
    systems: Tensor, skip: Tensor, u: Tensor, v: Tensor, x0: Tensor, _: Tensor, gradient: Tensor
) -> Tensors:
    from lrbench.scan.compiled.modulated import backward_loop

    dy, dlast = gradient.tensor_split([u[0].numel()], 1)
    dy, dlast = dy.view(u.shape), dlast.reshape(x0.shape)
    gradients = (
        *(t.new_zeros(t.shape) for t in (systems, skip)),
        *(t.new_empty(t.shape) for t in (u, v, x0)),
    )
    loop = backward_loop(lanes(u.shape[2]), DTYPES[u.dtype])
    loop(*map(array, (systems, skip, u, v, x0, dy, dlast, *gradients)))
    return gradients


COMPILED_LOOP = ClosedForm(_forward, _backward, one_by_one)
