"""Exact baselines of tasks whose strings are uniform walks over a finite automaton.

Where a task says so (`uniform_walks`), a string of length L is a walk from the start, each step
along one of the edges there, all equally likely. With T the matrix of that walk (Q, Q) and p_k the
distribution of states after k symbols, p_k = p_0 T^k, so that no baseline needs to be measured:

    position    max over classes of the probability at L
    majority    the probability at L of the class that is asked most often at 1 .. L
    last_token  sum over symbols of the largest joint probability of symbol and class at L

T^k and the sum over k come of one power of a matrix (2Q, 2Q), by squaring: a length of a million is
no slower than one of a thousand. Results are rounded to nine digits, so that equal ones are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.base import SampledTask
from lrbench.tasks.machine import NOWHERE, UNASKED, Machine

MOST_SYMBOLS, MOST_STATES = 32, 512  # beyond, baselines are measured: the power would take seconds
DIGITS = 9

Floats = NDArray[np.float64]


def exact_baselines(task: SampledTask, length: int) -> dict[str, float] | None:
    """Return {baseline: accuracy} of strings of `length`; None where they have to be measured."""
    if not task.uniform_walks or len(task.vocabulary) > MOST_SYMBOLS:
        return None
    machine = task.machine()
    if machine is None or machine.states > MOST_STATES:
        return None
    before, visits = _walked(machine, length - 1)
    classes = task.num_classes
    joint = _joint(machine, before, classes)
    at_end = joint.sum(0)
    often = np.round((at_end + _by_answer(machine, visits, classes)) / length, DIGITS)
    found = {
        "uniform": 1 / classes,
        "majority": at_end[often.argmax()],
        "position": at_end.max(),
        "last_token": joint.max(1).sum(),
    }
    return {name: round(float(value), DIGITS) for name, value in found.items()}


def _walked(machine: Machine, steps: int) -> tuple[Floats, Floats]:
    """Return p_steps (Q,), and the sum of p_1 .. p_steps (Q,)."""
    states = machine.states
    walk = np.zeros((states, states))
    before, symbol = np.nonzero(machine.table != NOWHERE)
    np.add.at(walk, (before, machine.table[before, symbol]), 1)
    walk /= walk.sum(1, keepdims=True)
    both = np.block([[walk, walk], [np.zeros_like(walk), np.eye(states)]])
    start = np.zeros(2 * states)
    start[machine.start] = 1
    ended = start @ np.linalg.matrix_power(both, steps)
    return ended[:states], ended[states:]


def _joint(machine: Machine, before: Floats, classes: int) -> Floats:
    """Return the probabilities (S, C) of last symbol and class, a step after p (Q,)."""
    table, targets = machine.table, machine.targets
    chances = (table != NOWHERE) / (table != NOWHERE).sum(1, keepdims=True) * before[:, None]
    joint = np.zeros((machine.symbols, classes))
    states, symbols = np.nonzero(table != NOWHERE)
    answers = targets[table[states, symbols]]
    there = answers != UNASKED
    np.add.at(joint, (symbols[there], answers[there]), chances[states[there], symbols[there]])
    return joint


def _by_answer(machine: Machine, visits: Floats, classes: int) -> Floats:
    """Return how often each class is asked (C,) in visits of states (Q,)."""
    there = machine.targets != UNASKED
    counted = np.bincount(machine.targets[there], visits[there], minlength=classes)
    return counted.astype(np.float64)
