"""Exact weights of models whose state is one-hot and is moved by a matrix for each symbol.

A finite automaton of N states is N x N matrices of zeros and ones, A_s e_q = e_{delta(q, s)}, and
its start, e_start (Terzic et al. 2025, arXiv:2412.19350 and 2509.22284). Nothing else is added to
the state. Symbols are one-hot. `lrbench/models/exact/weights.py` says when these are written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lrbench.mixers.structured.slice import STEP
from lrbench.models.exact.machine import EXACT, StateMachine, need

OPEN = 120.0  # its sigmoid is one and that of minus this nothing, in float32; so is a softmax


def matrices(machine: StateMachine, size: int) -> Tensor:
    """Return A_s, (S, N, N) with N = `size`; a column is zero where no valid string goes on so."""
    moves = torch.zeros(len(machine.delta[0]), size, size)
    for q, row in enumerate(machine.delta):
        for s, after in enumerate(row):
            if after is not None:
                moves[s, after, q] = 1
    return moves


def pdssm_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `pdssm`: a matrix of its dictionary for each symbol, D_k = 1.

    `state` is that of a `bare` model with one such mixer, `config` the mixer's settings; what comes
    back are the mixer's weights and, where the mixer has no map that says the classes, the head's.
    Where rows have the ones, symbols have to permute the states.
    """
    many, size, _ = state["mixers.0.dictionary"].shape
    states = len(machine.delta)
    need("model.mixer.state_size", size, states, "the states")
    moves = matrices(machine, size)
    need("model.mixer.dictionary", many, len(moves), "the symbols")
    if config.orientation == "row" and not bool((moves.sum(2)[:, :states] == 1).all()):
        raise ValueError(
            f"{EXACT} of model.mixer.orientation=row needs a task each of whose symbols permutes"
            " the states, such as sum, parity or group: use orientation=column"
        )
    new = _nothing(state)
    new["mixers.0.select.weight"][: len(moves), : len(moves)] = OPEN * torch.eye(len(moves))
    new["mixers.0.dictionary"][: len(moves)] = moves
    new["mixers.0.magnitude.2.bias"].fill_(OPEN)
    new["mixers.0.phase.2.bias"].fill_(-OPEN)
    new["mixers.0.start"][machine.start] = 1
    return new | _read(state, machine, step=2)


def sdssm_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `sdssm`: a matrix of its dictionary for each symbol, with no mixture.

    Arguments as for `pdssm_weights`. What no string reaches stays where it is, so that each column
    has a norm.
    """
    _check_start(config)
    many, size, _ = state["mixers.0.dictionary"].shape
    need("model.mixer.state_size", size, len(machine.delta), "the states")
    moves = matrices(machine, size)
    need("model.mixer.dictionary", many, len(moves), "the symbols")
    moves += torch.diag_embed(1 - moves.sum(1))
    new = _nothing(state)
    new["mixers.0.select.weight"][: len(moves), : len(moves)] = OPEN * torch.eye(len(moves))
    new["mixers.0.dictionary"][:] = torch.eye(size)
    new["mixers.0.dictionary"][: len(moves)] = moves
    new["mixers.0.start"][machine.start] = 1
    return new | _read(state, machine)


def slice_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `slice`: dt A_s is a symbol's matrix less one, in the first block.

    Arguments as for `pdssm_weights`. The first symbol writes the state that it leads to.
    """
    if config.structure not in ("block", "dense"):
        raise ValueError(f"{EXACT} needs model.mixer.structure=block or dense: permutations are")
    size = state["mixers.0.blocks"].shape[1]
    need("model.mixer.block_size", size, len(machine.delta), "the states")
    moves = matrices(machine, size) - torch.eye(size)
    new = _nothing(state)
    new["mixers.0.blocks"][0, :, :, : len(moves)] = moves.permute(1, 2, 0) / STEP
    for s, after in enumerate(machine.delta[machine.start]):
        if after is not None:
            new["mixers.0.first.weight"][after, s] = 1
    return new | _read(state, machine)


def _check_start(config: Any) -> None:
    if not config.learn_x0:
        raise ValueError(f"{EXACT} of one-hot states needs model.mixer.learn_x0=true")


def _nothing(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return all of the mixer's weights as zeros."""
    names = [name for name in state if name.startswith("mixers.0.")]
    return {name: torch.zeros_like(state[name]) for name in names}


def _read(state: dict[str, Tensor], machine: StateMachine, step: int = 1) -> dict[str, Tensor]:
    """Return the map that says the class: state q is number `step` q of what it reads.

    That map is the mixer's `out` or, where it has none, the head.
    """
    name = "mixers.0.out.weight"
    name = name if name in state else "head.0.weight"
    weight = torch.zeros_like(state[name])
    for q, answer in enumerate(machine.answers):
        if answer is not None:
            weight[answer, step * q] = 1
    return {name: weight}
