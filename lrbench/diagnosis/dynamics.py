"""The stretch of states by a model's step: eigenvalues, or products of Jacobians along words.

A linear recurrence x' = A_s x + v_s keeps what lies along eigenvalues of modulus one. A task that
counts to n needs some that are n-th roots of unity, and by as much as they are off, the state
drifts with every symbol. Where a step is not linear, Jacobians of the steps along a word are
multiplied: a norm that falls with the word's length is an error that is forgotten.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lrbench.certificates.foretold import AffineSteps
from lrbench.certificates.reader import SymbolReader, chosen, flat, unflat, why_no_derivative
from lrbench.diagnosis.extraction import random_words
from lrbench.tasks.machine import NOWHERE, Machine

SLOW = 0.97  # modulus from which on an eigenvalue is kept: 0.97^150 = 0.01
WORD_LENGTHS = (1, 2, 4, 8)  # symbols
STATES = 12  # from which each word is followed
AFTER = 40  # symbols after which they are taken
MOST_NUMBERS = 384  # of a carried state: products cost their cube
STEP = 1e-6  # of a central difference in float64, relative to 1 + |x|
MOST_SYMBOLS = 16  # that are repeated, the first of an alphabet
ROWS = 1 << 14  # states stepped side by side


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of A_s, the largest modulus first.

    slow: those of modulus above 0.97, complex. away: the distance of each to the nearest root of
    unity of the task's order. radius: the largest modulus; norm: the 2-norm of A_s.
    """

    symbol: int
    slow: tuple[complex, ...]
    away: tuple[float, ...]
    radius: float
    norm: float


@dataclass(frozen=True)
class Growth:
    """Products of Jacobians along words of 1, 2, 4 and 8 symbols, over several states each.

    symbol: the words are its repetitions; None: random words. Lists are by length of word, shorter
    where no valid string repeats the symbol so often. radius: the largest spectral radius; norm,
    largest_norm: mean and largest 2-norm.
    """

    symbol: int | None
    radius: tuple[float, ...]
    norm: tuple[float, ...]
    largest_norm: tuple[float, ...]


def order_of(machine: Machine) -> int:
    """Return the task's order: after so many repetitions every symbol leads back where it can.

    It is the least common multiple of the cycles that repetitions of single symbols go round: M of
    Sum(M), 1 where every symbol that is repeated stays where it leads.
    """
    order = 1
    for symbol in range(machine.symbols):
        for start in range(machine.states):
            state: int | None = start
            for steps in range(1, machine.states + 1):
                state = None if state is None else machine.delta[state][symbol]
                if state == start:
                    order = math.lcm(order, steps)
                    break
    return order


def spectra(steps: AffineSteps, order: int) -> tuple[Spectrum, ...]:
    """Return the eigenvalues of each symbol's matrix; what is not finite has none."""
    found = []
    for symbol, matrix in enumerate(steps.matrices):
        if not np.isfinite(matrix).all():
            found.append(Spectrum(symbol, (), (), math.inf, math.inf))
            continue
        values = np.linalg.eigvals(matrix)
        values = values[np.lexsort((values.imag, -np.abs(values).round(9)))]
        slow = values[np.abs(values) > SLOW]
        found.append(
            Spectrum(
                symbol,
                tuple(map(complex, slow)),
                tuple(from_roots(slow, order).tolist()),
                float(np.abs(values).max()),
                float(np.linalg.norm(matrix, 2)),
            )
        )
    return tuple(found)


def from_roots(values: NDArray[np.complex128], order: int) -> NDArray[np.float64]:
    """Return the distance of each value to the nearest solution of z^order = 1."""
    turns = np.round(np.angle(values) * order / (2 * np.pi))
    return np.asarray(np.abs(values - np.exp(2j * np.pi * turns / order)))


def growth(
    model: nn.Module, machine: Machine, lengths: Sequence[int] = WORD_LENGTHS
) -> tuple[Growth, ...] | str:
    """Return how products of Jacobians grow with words, a row a symbol and one of random words.

    Of an alphabet of more than 16 symbols the first 16 are repeated.

    Of the whole carried state of all layers, in float64, on the CPU, from states that random
    strings reach after 40 symbols. Returns why not for a state that grows with the string, or of
    too many numbers.
    """
    if getattr(model, "state_size", 0) is None:
        return "the state grows with the string"
    reader = SymbolReader(copy.deepcopy(model).cpu().double())
    numbers = reader.numbers(machine.symbols)
    if numbers > MOST_NUMBERS:
        return f"a state of {numbers} numbers is more than {MOST_NUMBERS}"
    starts, at = _visited(reader, machine)
    if not len(at):
        return "no valid string goes on"
    if reason := why_no_derivative(starts):
        return reason
    like = chosen(starts, torch.zeros(1, dtype=torch.int64))
    x = flat(starts)
    rows = []
    rng = np.random.default_rng(1)
    for symbol in [*range(min(machine.symbols, MOST_SYMBOLS)), None]:
        tokens, alive = _words(machine, at, symbol, max(lengths), rng)
        rows.append(_along(reader, x[alive], tokens, like, symbol, lengths))
    return tuple(row for row in rows if row.norm)


def jacobians(reader: SymbolReader, x: Tensor, tokens: Tensor, like: Any) -> tuple[Tensor, Tensor]:
    """Return the Jacobians (B, D, D) of a step from states x (B, D), and the states (B, D) after.

    By central differences: they ask nothing of a model but its step. `like` is the carried state of
    one string. The dtype is that of x, which should be float64.
    """
    count, size = x.shape
    parts, moved = [], []
    for start in range(0, count, max(1, ROWS // (2 * size + 1))):
        here = x[start : start + max(1, ROWS // (2 * size + 1))]
        h = STEP * (1 + here.abs())  # (b, D)
        sides = here[:, None] + torch.stack([torch.diag_embed(h), -torch.diag_embed(h)])
        points = torch.cat([sides.flatten(0, 2), here])
        symbols = tokens[start : start + len(here)]
        repeated = torch.cat([symbols.repeat_interleave(size).repeat(2), symbols])
        _, after = reader.step(repeated, unflat(points, like))
        reached = flat(after)
        up, down = reached[: -len(here)].view(2, len(here), size, size)
        parts.append(((up - down) / (2 * h[:, :, None])).transpose(1, 2))
        moved.append(reached[-len(here) :])
    return torch.cat(parts), torch.cat(moved)


def _visited(reader: SymbolReader, machine: Machine) -> tuple[Any, NDArray[np.int64]]:
    """Return carried states after random strings, and the task's states there."""
    words = [word for word in random_words(machine, STATES, AFTER, seed=0) if len(word) == AFTER]
    if not words:
        return None, np.zeros(0, np.int64)
    state = None
    for tokens in torch.tensor(words).T:
        _, state = reader.step(tokens, state)
    return state, np.array([machine.walk(word)[-1] for word in words])


def _words(
    machine: Machine,
    at: NDArray[np.int64],
    symbol: int | None,
    longest: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], list[int]]:
    """Return valid words (B, up to longest) from the task's states, and from which of them.

    As long as the symbol can be repeated from all of those where it can come at all.
    """
    table = machine.table
    alive = [
        row
        for row, q in enumerate(at)
        if (table[q].max() if symbol is None else table[q, symbol]) != NOWHERE
    ]
    states = at[alive]
    columns: list[NDArray[np.int64]] = []
    while alive and len(columns) < longest:
        if symbol is None:
            edges = [np.nonzero(table[q] != NOWHERE)[0] for q in states]
            if not all(len(one) for one in edges):
                break
            column = np.array([rng.choice(one) for one in edges])
        else:
            column = np.full(len(states), symbol)
        after = table[states, column]
        if (after == NOWHERE).any():
            break
        columns.append(column)
        states = after
    return np.array(columns, dtype=np.int64).reshape(len(columns), len(alive)).T, alive


def _along(
    reader: SymbolReader,
    x: Tensor,
    tokens: NDArray[np.int64],
    like: Any,
    symbol: int | None,
    lengths: Sequence[int],
) -> Growth:
    """Multiply the Jacobians along words (B, n) from states x (B, D)."""
    radius, norm, largest = [], [], []
    product: Tensor | None = None
    for length, column in enumerate(torch.from_numpy(tokens).T, 1):
        step, x = jacobians(reader, x, column, like)
        product = step if product is None else step @ product
        if length not in lengths:
            continue
        if not bool(product.isfinite().all()):
            break
        norms = torch.linalg.matrix_norm(product, 2)
        radius.append(float(torch.linalg.eigvals(product).abs().max()))
        norm.append(float(norms.mean()))
        largest.append(float(norms.max()))
    return Growth(symbol, tuple(radius), tuple(norm), tuple(largest))
