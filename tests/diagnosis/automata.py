"""Models that are automata, and automata drawn at random."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.machine import NOWHERE, Machine, explored, minimised


def machine_of(name: str, modulus: int) -> Machine:
    machine = make_task(TASKS.get(name).config(modulus=modulus)).machine()
    assert machine is not None
    return machine


class Automaton(nn.Module):
    """A machine as a model: its carried state is the number of the machine's state."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.table, self.targets = (
            torch.from_numpy(machine.table),
            torch.from_numpy(machine.targets),
        )
        self.strings_read = 0

    def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> tuple[Tensor, Any]:
        at = torch.full((len(tokens),), self.machine.start) if state is None else state[0]
        for place in range(tokens.shape[1]):
            at = self.table[at, tokens[:, place]]
            assert bool((at != NOWHERE).all()), "a string that is not valid was read"
        assert bool((self.targets[at] >= 0).all()) or state is not None or tokens.shape[1] == 1
        logits = torch.zeros(len(tokens), int(self.targets.max()) + 1)
        logits[torch.arange(len(tokens)), self.targets[at].clamp(min=0)] = 1
        return logits, [at]


def random_machine(seed: int, states: int, symbols: int, classes: int) -> Machine:
    """Draw a machine of up to so many states, all of which can be reached.

    Some edges are missing, and some states are asked nothing.
    """
    rng = random.Random(seed)
    delta = [
        [rng.randrange(states) if rng.random() < 0.9 else None for _ in range(symbols)]
        for _ in range(states)
    ]
    delta[0][0] = states - 1
    answers = [rng.choice([None, *range(classes), *range(classes)]) for _ in range(states)]
    answers[states - 1] = classes - 1
    return explored(0, symbols, lambda q, s: delta[q][s], lambda q: answers[q])


def canonical(machine: Machine) -> Machine:
    """Return the smallest machine that is equal, states numbered breadth first, without names."""
    step = lambda q, s: machine.delta[q][s]  # noqa: E731
    small = minimised(explored(machine.start, machine.symbols, step, lambda q: machine.answers[q]))
    ordered = explored(
        small.start,
        small.symbols,
        lambda q, s: small.delta[q][s],
        lambda q: small.answers[q],
        lambda q: "",
    )
    return ordered
