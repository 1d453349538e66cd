"""The predicted horizon of a linear recurrence: accuracy at any length, without drawing strings.

A model of one layer whose carried state obeys x' = A_s x + v_s, with A_s and v_s of the symbol
alone, has moments that obey exactly (p_q the probability of the task's state q, w(s|q) that of a
symbol there; M_q = E[x 1(q)], C_q = E[x x^T 1(q)]):

    p'_r = sum over d(q, s) = r of  w p_q
    M'_r = sum of  w (A_s M_q + p_q v_s)
    C'_r = sum of  w (A_s C_q A_s^T + A_s M_q v_s^T + v_s M_q^T A_s^T + p_q v_s v_s^T)

Accuracy at length n is that of Gaussian states with the moments of length n - 1, put through the
model by one more symbol. That states are Gaussian is an assumption; the moments are not.

This speaks of random strings. The shortest wrong string may be far shorter: symbols that drift on
their own are averaged away in a random string (lrbench/certificates/witness.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lrbench.certificates.reader import SymbolReader, chosen, flat, unflat, why_no_derivative
from lrbench.tasks.machine import NOWHERE, Machine

Numbers = NDArray[np.float64]

DRAWS = 400  # states for each state of the task
MOST_NUMBERS = 512  # of a carried state: moments cost its cube
MOST_EDGES = 4096  # of the task: each is a step of moments, and a step of the model at each length
TOLERANCE = 1e-3  # relative: by how much a step may be off its affine map in float32
GOOD = 0.99
GRID = 1.2  # between two lengths


@dataclass(frozen=True)
class AffineSteps:
    """A_s (S, D, D), v_s (S, D) and x_0 (D,) of a model's carried state, as real numbers."""

    matrices: Numbers
    offsets: Numbers
    start: Numbers
    like: Any  # the carried state of one string, which says how numbers lie in it


@dataclass(frozen=True)
class Foretold:
    """Accuracy foretold at some lengths: {length: accuracy}, and the first below 0.99."""

    accuracies: dict[int, float]
    horizon: int | None  # the largest of the lengths up to which all are at least 0.99
    first_below: int | None


def affine_steps(reader: SymbolReader, symbols: int, of_several: bool = False) -> AffineSteps | str:
    """Return the affine maps of a model's steps, or why there are none.

    They are read off the model: the step from zero, and from each unit vector. Further random
    states say whether the steps are affine at all. `of_several`: of a model of several layers,
    those of its first, whose steps depend on the symbol alone.
    """
    model = reader.model
    if getattr(model, "state_size", None) is None:
        return "the state grows with the string"
    stateful: Sequence[Any] = getattr(model, "stateful", ())
    if not stateful:
        return "it does not say which of its layers carry a state"
    if len(stateful) != 1 and not of_several:
        return f"{len(stateful)} layers carry a state: only one can be foretold"
    with torch.no_grad():
        first, *deeper = ([layer.initial_state(1)] for layer in stateful)
    if reason := why_no_derivative(first):
        return reason
    size = len(flat(first)[0])
    if size > MOST_NUMBERS:
        return f"a state of {size} numbers is more than {MOST_NUMBERS}"
    generator = torch.Generator().manual_seed(0)
    scale = 1 + float(flat(first).abs().max())
    tried = torch.randn(8, size, generator=generator) * scale
    points = torch.cat([torch.zeros(1, size), torch.eye(size), tried])
    matrices, offsets = [], []
    for symbol in range(symbols):
        tokens = torch.full((len(points),), symbol)
        above = [
            state
            for layer_states in deeper
            for state in chosen(layer_states, torch.zeros_like(tokens))
        ]
        _, after = reader.step(tokens, [*unflat(points, first), *above])
        reached = flat(after[:1]).double().numpy()
        if not np.isfinite(reached).all():
            return "its step is not affine in the carried state"
        offset, matrix = reached[0], (reached[1 : size + 1] - reached[0]).T
        expected = points[size + 1 :].double().numpy() @ matrix.T + offset
        error = np.abs(expected - reached[size + 1 :]).max()
        if not error <= TOLERANCE * (1 + np.abs(expected).max()):
            return "its step is not affine in the carried state"
        matrices.append(matrix)
        offsets.append(offset)
    start = flat(first)[0].double().numpy()
    return AffineSteps(np.stack(matrices), np.stack(offsets), start, first)


@dataclass
class Moments:
    """p (Q,), M (Q, D) and C (Q, D, D) of a task's states after so many random symbols."""

    p: Numbers
    m: Numbers
    c: Numbers

    @classmethod
    def of(cls, machine: Machine, start: Numbers) -> Moments:
        """Return the moments before the first symbol."""
        states, size = machine.states, len(start)
        found = cls(np.zeros(states), np.zeros((states, size)), np.zeros((states, size, size)))
        found.p[machine.start] = 1
        found.m[machine.start] = start
        found.c[machine.start] = np.outer(start, start)
        return found

    def after(self, steps: AffineSteps, machine: Machine) -> Moments:
        """Return the moments one symbol later."""
        table = machine.table
        found = Moments(*(np.zeros_like(part) for part in (self.p, self.m, self.c)))
        for symbol, (a, v) in enumerate(zip(steps.matrices, steps.offsets, strict=True)):
            before = np.nonzero((table[:, symbol] != NOWHERE) & (self.p > 0))[0]
            if not len(before):
                continue
            to = table[before, symbol]
            chance = 1 / (table[before] != NOWHERE).sum(1)
            p, m, c = self.p[before], self.m[before], self.c[before]
            moved = m @ a.T
            cross = moved[:, :, None] * v
            second = a @ c @ a.T + cross + cross.transpose(0, 2, 1)
            second += p[:, None, None] * np.outer(v, v)
            np.add.at(found.p, to, chance * p)
            np.add.at(found.m, to, chance[:, None] * (moved + p[:, None] * v))
            np.add.at(found.c, to, chance[:, None, None] * second)
        return found


def foretell(
    model: nn.Module, machine: Machine, longest: int = 2000, shortest: int = 10
) -> Foretold | str:
    """Return accuracy foretold on a grid of lengths to `longest`, or why nothing is foretold.

    Lengths are those of a grid of factor 1.2 at which something is asked. It ends at the second
    length below 0.99.
    """
    reader = SymbolReader(model.cpu())  # its carried states are made there
    steps = affine_steps(reader, machine.symbols)
    if isinstance(steps, str):
        return steps
    if (edges := int((machine.table != NOWHERE).sum())) > MOST_EDGES:
        return f"a task of {edges:,} edges has more than {MOST_EDGES:,}"
    wanted = iter(_grid(shortest, longest))
    length, below = next(wanted), 0
    moments, found = Moments.of(machine, steps.start), {}
    for n in range(1, longest + 1):
        if n == length:
            accuracy = _accuracy(reader, machine, steps, moments)
            if accuracy is None:  # nothing is asked at this length
                length += 1
            else:
                found[n] = accuracy
                below += accuracy < GOOD
                length = next((later for later in wanted if later > n), 0)
                if below == 2 or not length:
                    break
        moments = moments.after(steps, machine)
        if not np.isfinite(moments.c).all():
            break  # a state beyond float64: it ends here in float32 as well
    good = [n for n in found if all(found[m] >= GOOD for m in found if m <= n)]
    return Foretold(
        found,
        max(good, default=None),
        next((n for n, accuracy in found.items() if accuracy < GOOD), None),
    )


def _grid(shortest: int, longest: int) -> list[int]:
    count = int(math.log(max(1, longest / shortest)) / math.log(GRID)) + 1
    return [round(shortest * GRID**k) for k in range(count)]


def _accuracy(
    reader: SymbolReader, machine: Machine, steps: AffineSteps, moments: Moments
) -> float | None:
    """Return the accuracy one symbol after these moments; None where nothing is asked."""
    rng = np.random.default_rng(0)
    right = scored = 0.0
    answers, table = machine.targets, machine.table
    for q in np.nonzero(moments.p > 0)[0]:
        drawn = _gaussian(rng, moments.p[q], moments.m[q], moments.c[q])
        symbols = [s for s in range(machine.symbols) if table[q, s] != NOWHERE]
        for symbol in symbols:
            answer = answers[table[q, symbol]]
            weight = moments.p[q] / len(symbols)
            if answer < 0:
                continue
            tokens = torch.full((DRAWS,), symbol)
            logits, _ = reader.step(tokens, unflat(torch.from_numpy(drawn), steps.like))
            good = logits.isfinite().all(-1) & (logits.argmax(-1) == int(answer))
            right += weight * float(good.double().mean())
            scored += weight
    return right / scored if scored > 0 else None


def _gaussian(rng: np.random.Generator, p: float, m: Numbers, c: Numbers) -> Numbers:
    """Draw states (DRAWS, D) of mean M/p and covariance C/p minus the mean's square."""
    mean = m / p
    values, vectors = np.linalg.eigh(c / p - np.outer(mean, mean))
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.asarray(mean + rng.standard_normal((DRAWS, len(mean))) @ root.T)
