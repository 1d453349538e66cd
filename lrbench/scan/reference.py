"""The reference scan: the recurrence as written, slow, by which all other algorithms are tested."""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.transitions import Transition, apply, written_out


def reference(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T of x_k = A_k x_{k-1} + b_k, (B, T, ...), by plain autograd.

    `inputs` is (B, T, ...), or the table (1, S, ...) of an `Indexed` transition; `initial` is
    (B, ...).
    """
    dense, inputs = written_out(transition, inputs)
    state, states = initial, []
    for position in range(inputs.shape[1]):
        state = apply(dense, position, state) + inputs[:, position]
        states.append(state)
    return torch.stack(states, dim=1)
