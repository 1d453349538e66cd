"""Exact weights of models that turn: tasks whose symbols are powers of one cycle of the states.

Where every symbol moves the states along one cycle of m states (parity, sum), the state is an angle
2 pi k / m and a symbol adds a multiple of 2 pi / m to it. Real numbers in [-1, 1] turn by half a
circle alone, that is m = 2; rotations by any angle (Grazzi et al. 2025, arXiv:2411.12537). A model
starts from what is learnt as its first state and never writes.

The feature read for a class that stands at the angle k is the cosine of the angle to it. Symbols
are one-hot. `lrbench/models/exact/weights.py` says when these are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.models.exact.machine import EXACT, StateMachine

OPEN = 40.0  # silu of this is this, in float32, and its sigmoid is one
STILL = 120.0  # softplus of minus this is nothing beside one
FAR = 320.0  # this much more makes a step after which e^-step is nothing
MAMBA = (
    *("project.weight", "selection.weight", "step_size.weight", "step_size.bias"),
    *("log_rate", "skip", "out.weight", "start"),
)
MAMBA2 = ("project.weight", "time_bias", "log_rate", "skip", "norm.weight", "out.weight", "start")
MAMBA3 = (
    *("project.weight", "time_bias", "skip", "out.weight", "start"),
    *("key_norm.weight", "query_norm.weight", "key_bias", "query_bias"),
)


@dataclass(frozen=True)
class Turns:
    """A cycle of m states: by how many of them each symbol moves on, and where each class is."""

    modulus: int
    symbols: list[int]
    classes: list[int]

    def read(self) -> Tensor:
        """Return the cosine and sine of the angle of each class, (C, 2)."""
        angles = 2 * math.pi / self.modulus * torch.tensor(self.classes, dtype=torch.float64)
        return torch.stack([angles.cos(), angles.sin()], 1).float()


def turns_of(machine: StateMachine) -> Turns:
    """Return the turns of a machine; ValueError where its symbols are not powers of one cycle."""
    size, symbols = len(machine.delta), range(len(machine.delta[0]))
    moves = [tuple(_number(row[s]) for row in machine.delta) for s in symbols]
    answers = [_number(answer) for answer in machine.answers]
    cycle = _cycle(moves, machine.start) if sorted(answers) == list(range(size)) else None
    if cycle is None:
        raise ValueError(
            f"{EXACT} of turns needs a task whose symbols move its states along one cycle, with an"
            " answer for each state, such as sum or parity"
        )
    place = {state: k for k, state in enumerate(cycle)}
    classes = [place[answers.index(answer)] for answer in range(size)]
    return Turns(size, [place[move[machine.start]] for move in moves], classes)


def _number(state: int | None) -> int:
    """Return a state or a class, -1 where there is none."""
    return -1 if state is None else state


def _cycle(moves: Sequence[tuple[int, ...]], start: int) -> list[int] | None:
    """Return all states in the order of one word of moves, of which all moves are powers."""
    size = len(moves[0])
    if any(sorted(move) != list(range(size)) for move in moves):
        return None
    found = [tuple(range(size))]
    for word in found:  # grows: the group that the moves generate
        for move in moves:
            further = tuple(move[state] for state in word)
            if further not in found:
                found.append(further)
        if len(found) > size:
            return None
    for word in found:
        cycle = [start]
        while word[cycle[-1]] != start and len(cycle) < size:
            cycle.append(word[cycle[-1]])
        if len(set(cycle)) == size:
            return cycle  # a group of `size` elements has no others than the powers of this one
    return None


def mamba_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `mamba` in [-1, 1]: one number of one channel that changes its sign.

    `state` is that of a `bare` model with one such mixer, `config` the mixer's settings.
    """
    _check(config, {"range": "signed", "conv_size": 0, "learn_x0": True})
    turns = turns_of(machine)
    _check_halves(turns)
    symbols, channels = len(turns.symbols), state["mixers.0.out.weight"].shape[1]
    new = {name: torch.zeros_like(state[f"mixers.0.{name}"]) for name in MAMBA}
    new["project.weight"][:symbols, :symbols] = OPEN * torch.eye(symbols)  # x: the symbol
    new["project.weight"][channels, :symbols] = OPEN  # z of the channel
    rank = len(new["selection.weight"]) - 2 * config.state_size
    new["selection.weight"][0, :symbols] = torch.tensor(turns.symbols).float() / OPEN
    new["selection.weight"][rank + config.state_size, :symbols] = 1 / OPEN  # c
    new["step_size.weight"][0, 0] = FAR
    new["step_size.bias"][0] = -STILL
    new["start"][0, 0] = 1
    new["out.weight"][: turns.modulus, 0] = turns.read()[:, 0] / OPEN
    return {f"mixers.0.{name}": value for name, value in new.items()}


def mamba2_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `mamba2` in [-1, 1]: one number of one head that changes its sign.

    Arguments as for `mamba_weights`.
    """
    _check(config, {"range": "signed", "conv_size": 0, "learn_x0": True})
    turns = turns_of(machine)
    _check_halves(turns)
    symbols, channels = len(turns.symbols), state["mixers.0.out.weight"].shape[1]
    new = {name: torch.zeros_like(state[f"mixers.0.{name}"]) for name in MAMBA2}
    z, _, _, c, s = new["project.weight"].split(
        [channels, channels, config.state_size, config.state_size, config.heads]
    )
    z[0, :symbols] = c[0, :symbols] = OPEN
    s[0, :symbols] = FAR * torch.tensor(turns.symbols)
    new["time_bias"][0] = -STILL
    new["start"][0, 0, 0] = 1
    new["norm.weight"][0] = channels**-0.5  # the norm makes one number of all the root of all
    new["out.weight"][: turns.modulus, 0] = turns.read()[:, 0]
    return {f"mixers.0.{name}": value for name, value in new.items()}


def mamba3_weights(
    state: dict[str, Tensor], config: Any, machine: StateMachine
) -> dict[str, Tensor]:
    """Return the weights of `mamba3`: two rows of one head, read by a query that turns.

    They are its cosine and its sine. Steps are of one, the least at which half a turn can be made,
    so that the state fades by 1 in 10,000 a symbol. Arguments as for `mamba_weights`.
    """
    _check(config, {"learn_x0": True})
    turns = turns_of(machine)
    (heads, values, size), channels = (
        state["mixers.0.start"].shape,
        state["mixers.0.out.weight"].shape[1],
    )
    sizes = [channels, channels, size, size, heads, heads, heads]
    turning = len(state["mixers.0.project.weight"]) - sum(sizes)
    if values < 2:
        raise ValueError(
            f"{EXACT} of turns needs heads of at least two channels here, not"
            f" {values}: raise model.width or lower model.mixer.heads={heads}"
        )
    new = {name: torch.zeros_like(state[f"mixers.0.{name}"]) for name in MAMBA3}
    z, _, _, _, _, fall, _, turn = new["project.weight"].split([*sizes, turning])
    shares = 2 / turns.modulus * torch.tensor(turns.symbols, dtype=torch.float64)
    shares = torch.where(shares > 1, shares - 2, shares)  # of half a turn, either way round
    z[:2, : len(shares)] = OPEN
    fall[0, : len(shares)] = -OPEN
    turn[0, : len(shares)] = shares.atanh().clamp_max(OPEN).float()
    new["time_bias"].fill_(math.log(math.expm1(1)))  # softplus of this is one
    new["start"][0, 0, 0] = new["start"][0, 1, turning] = 1
    new["query_bias"][0, 0] = 1
    new["out.weight"][: turns.modulus, :2] = turns.read() / OPEN
    return {f"mixers.0.{name}": value for name, value in new.items()}


def _check_halves(turns: Turns) -> None:
    if turns.modulus != 2:
        raise ValueError(
            f"{EXACT} of real numbers in [-1, 1] needs a task of two states, such as parity, not"
            f" {turns.modulus}: model=mamba3 turns by any angle"
        )


def _check(config: Any, wanted: dict[str, Any]) -> None:
    """Raise ValueError unless the mixer's settings are those that are wanted."""
    wrong = [name for name, value in wanted.items() if getattr(config, name) != value]
    if wrong:
        words = (f"model.mixer.{name}={str(wanted[name]).lower()}" for name in wrong)
        raise ValueError(f"{EXACT} of turns needs {' '.join(words)}")
