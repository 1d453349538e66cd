"""Proofs for linear recurrences whose matrices are signed permutations: finitely many exact states.

For weights in general position there is no proof by boxes. A word that leads two states of a task
back to themselves maps the box of each into itself, so the word's matrix has a fixed point in each,
and so the eigenvalue one exactly, which rounding destroys. Columns of one entry 1 or -1 move whole
numbers about without rounding: then the states that strings reach are counted, and each is a box
that is a point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from lrbench.certificates.boxes import Boxes
from lrbench.certificates.foretold import AffineSteps, affine_steps
from lrbench.certificates.graphs import ProofGraph
from lrbench.certificates.images import Numbers, head_of, leads, numbers_of
from lrbench.certificates.reader import SymbolReader
from lrbench.tasks.machine import NOWHERE, Machine

LARGEST_WHOLE = 2**24  # sums of whole numbers are exact in float32 up to here


def counted_states(
    model: nn.Module, config: dict[str, Any], machine: Machine, most: int
) -> Boxes | str:
    """Return the states that strings reach, as boxes that are points, or why there is no proof.

    config: the `model` node of its configuration.
    """
    numbers = numbers_of(model, config.get("backbone", {}))
    if isinstance(numbers, str):
        return numbers
    steps = affine_steps(SymbolReader(model), machine.symbols)
    if isinstance(steps, str):
        return f"no proof is sought for this {config['name']}: {steps}"
    if rounded := _rounded(steps):
        return (
            f"no proof by boxes can be for a linear recurrence that rounds: {rounded};"
            " only signed permutations of whole numbers do not"
        )
    boxes = _reached(steps, machine, most)
    if isinstance(boxes, str):
        return boxes
    read = boxes.lo
    if "mixers.0.out.weight" in numbers:
        read = read @ numbers["mixers.0.out.weight"].T + numbers["mixers.0.out.bias"]
    entered = np.unique(boxes.nodes.following[boxes.nodes.following != NOWHERE])
    answers = machine.targets[boxes.nodes.states]
    judged = entered[answers[entered] >= 0]
    ahead = leads(head_of(numbers), answers[judged], read[judged], read[judged])
    if (ahead > 0).all():
        return boxes
    return "no proof: one of the exact states does not lead to the right answer"


def _rounded(steps: AffineSteps) -> str:
    """Return a number of the recurrence that makes float32 round; empty where there is none."""
    for symbol, (matrix, offset) in enumerate(zip(steps.matrices, steps.offsets, strict=True)):
        if offset.any():
            return f"symbol {symbol} writes {offset[np.nonzero(offset)[0][0]]:.4g} into the state"
        other = matrix[~np.isin(matrix, (-1, 0, 1))]
        if len(other):
            return f"the matrix of symbol {symbol} has an entry {other[0]:.4g}"
        if (np.abs(matrix).sum(0) > 1).any():
            return f"the matrix of symbol {symbol} has a column of several entries"
    start = steps.start
    other = start[start != np.rint(start)]
    if len(other):
        return f"the start has an entry {other[0]:.4g}"
    return "" if np.abs(start).sum() < LARGEST_WHOLE else "the start is too large"


def _reached(steps: AffineSteps, machine: Machine, most: int) -> Boxes | str:
    """Return every pair of a state of the task and one of the model, breadth first."""
    table, start = machine.table, steps.start + 0.0
    number: dict[tuple[int, bytes], int] = {(machine.start, start.tobytes()): 0}
    states, points, rows = [machine.start], [start], []
    words: list[tuple[int, ...]] = [()]
    for node, point in enumerate(points):  # grows
        row = []
        for symbol in range(machine.symbols):
            to = int(table[states[node], symbol])
            if to == NOWHERE:
                row.append(NOWHERE)
                continue
            after: Numbers = steps.matrices[symbol] @ point + 0.0  # no -0, which equals 0
            name = to, after.tobytes()
            if name not in number:
                if len(points) == most:
                    return f"no proof: strings reach more than {most:,} exact states"
                number[name] = len(points)
                states.append(to)
                points.append(after)
                words.append((*words[node], symbol))
            row.append(number[name])
        rows.append(row)
    nodes = ProofGraph(np.array(rows, np.int32), np.array(states), words)
    lo = np.stack(points)
    return Boxes(nodes, lo, lo.copy(), len(words[-1]))
