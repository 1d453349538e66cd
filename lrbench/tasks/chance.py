"""Exact baselines of tasks whose strings are walks over a finite automaton.

Where a task tells how its strings are drawn (`SampledTask.drawing`), a string is a walk from the
start, each symbol with a probability that the state gives. With T the matrix of that walk (Q, Q)
and p_k the distribution of states after k symbols, p_k = p_(k-1) T, no baseline needs to be
measured. L is the last position, which is asked:

    position    max over classes of the probability at L
    majority    the probability at L of the class that is asked most often at 1 .. L
    last_token  sum over symbols of the largest joint probability of the last symbol that is no
                query, and the class at L

A stretch of positions with the same probabilities is one power of a matrix (2Q, 2Q), by squaring:
a length of a million is no slower than one of a thousand. Results are rounded to nine digits, so
that equal ones are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.base import SampledTask
from lrbench.tasks.machine import NOWHERE, UNASKED, Chances, Drawing, Machine

MOST_STATES = 512  # beyond, baselines are measured: the power would take seconds
MOST_SYMBOLS = 32  # of `uniform_walks`: their machines, made when asked for, have up to S^2 states
DIGITS = 9
DRAWS = ("_letters", "_tokens", "_strings", "_pieces")  # what strings come from

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def exact_baselines(task: SampledTask, length: int) -> dict[str, float] | None:
    """Return {baseline: accuracy} of strings of `length`; None where they have to be measured."""
    if task.averaged or not _tells_its_own(type(task)):
        return None
    if task.uniform_walks and len(task.vocabulary) > MOST_SYMBOLS:
        return None
    machine = task.machine()
    if machine is None or machine.states > MOST_STATES:
        return None
    drawing = task.drawing(length)
    if drawing is None:
        return None
    visits, joint = _walked(machine, drawing)
    asked = machine.targets != UNASKED
    classes = np.zeros((machine.states, task.num_classes))
    classes[asked, machine.targets[asked]] = 1
    joint = joint @ classes
    at_end = joint.sum(0)
    if abs(at_end.sum() - 1) > 1e-6:  # some strings end where nothing is asked
        return None
    often = np.round(visits @ classes / length, DIGITS)
    found = {
        "uniform": 1 / task.num_classes,
        "majority": at_end[often.argmax()],
        "position": at_end.max(),
        "last_token": joint.max(1).sum(),
    }
    return {name: round(float(value), DIGITS) for name, value in found.items()}


def _tells_its_own(cls: type) -> bool:
    """Whether no class below the one that tells how strings are drawn draws them otherwise."""
    tells = "uniform_walks" if cls.drawing is SampledTask.drawing else "drawing"  # type: ignore[attr-defined]
    below = takewhile(lambda one: tells not in vars(one), cls.__mro__)
    return not any(draws in vars(one) for one in below for draws in DRAWS)


def _walked(machine: Machine, drawing: Drawing) -> tuple[Floats, Floats]:
    """Return how often states are asked (Q,), and of the end: last symbol and state (S, Q)."""
    state = np.zeros(machine.states)
    state[machine.start] = 1
    asked, joint, place = np.zeros_like(state), None, 0
    before, symbol, after = _edges(machine)
    for count, chances in _pieces(drawing):
        taken, walk = chances[before, symbol], np.zeros((machine.states, machine.states))
        np.add.at(walk, (before, after), taken)
        if joint is not None:
            joint = joint @ np.linalg.matrix_power(walk, count)
        elif place == drawing.read:
            joint = np.zeros((machine.symbols, machine.states))
            np.add.at(joint, (symbol, after), state[before] * taken)
        state, visits = _powers(walk, state, count)
        asked, place = asked + visits, place + count
    assert joint is not None
    return (state if drawing.at_end else asked), joint


def _pieces(drawing: Drawing) -> Iterator[tuple[int, Chances]]:
    """Yield the stretches that are not empty, the position of the last symbol on its own."""
    place = 0
    for count, chances in drawing.stretches:
        before = min(max(drawing.read - place, 0), count)
        alone = int(place <= drawing.read < place + count)
        for part in (before, alone, count - before - alone):
            if part:
                yield part, chances
        place += count


def _edges(machine: Machine) -> tuple[Indices, Indices, Indices]:
    """Return state, symbol and next state of each edge."""
    before, symbol = np.nonzero(machine.table != NOWHERE)
    return before, symbol, machine.table[before, symbol]


def _powers(walk: Floats, state: Floats, steps: int) -> tuple[Floats, Floats]:
    """Return p_steps (Q,) from p_0, and the sum of p_1 .. p_steps (Q,)."""
    states = len(walk)
    both = np.block([[walk, walk], [np.zeros_like(walk), np.eye(states)]])
    ended = np.concatenate((state, np.zeros(states))) @ np.linalg.matrix_power(both, steps)
    return ended[:states], ended[states:]
