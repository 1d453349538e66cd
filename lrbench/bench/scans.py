"""`lrbench bench scan`: which algorithm is fastest for which recurrence, here and now.

Forward and backward of random contractions, with the gradient of transitions, inputs and x_0. What
`algorithm=auto` goes by is such a table, made on one machine and shipped:
lrbench/scan/algorithms/fastest.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lrbench.bench.timing import Call, alternate
from lrbench.errors import UserError, unknown
from lrbench.scan import ALGORITHMS, scan
from lrbench.scan.algorithms.fastest import COLUMNS, Size, size_of
from lrbench.scan.transitions import (
    BlockDiagonal,
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    Indexed,
    Transition,
)

CANDIDATES = ("sequential", "tree", "chunked")  # reference is slow on purpose
SYMBOLS = 5
MOST_NUMBERS = 1 << 23  # of all transitions, which a tree writes at each of its levels


@dataclass(frozen=True)
class Case:
    """A recurrence to measure: N = width numbers of state a string, in blocks of `block`."""

    structure: str
    block: int
    indexed: bool
    width: int
    batch: int
    length: int


@dataclass(frozen=True)
class ScanCost:
    """Seconds of one algorithm, forward and backward, and as a multiple of the fastest one's."""

    size: Size
    batch: int
    algorithm: str
    seconds: float
    times_fastest: float


STRUCTURES = (
    ("diagonal", 1),
    ("diagonal_complex", 1),
    *(("blocks", block) for block in (2, 4, 8, 16, 64)),
    ("constant_diagonal", 1),
    ("constant_diagonal_complex", 1),
    *(("constant_blocks", block) for block in (8, 64)),
)


def cases(
    structures: Sequence[str], batches: Sequence[int], lengths: Sequence[int], width: int = 64
) -> list[Case]:
    """Return the recurrences to measure; UserError for an unknown structure."""
    known = list(dict.fromkeys(name for name, _ in STRUCTURES))
    for name in structures:
        if name not in known:
            raise unknown("structure", name, known, exit_code=2)
    return [
        Case(name, block, indexed, width, batch, length)
        for name, block in STRUCTURES
        if name in (structures or known)
        for indexed in ((False, True) if not name.startswith("constant") else (False,))
        for length in lengths
        for batch in batches
        if batch * length * width * block <= MOST_NUMBERS
    ]


def scan_costs(
    chosen: Iterable[Case],
    rounds: int,
    seconds: float,
    device: torch.device,
    tell: Callable[[str], None] = lambda line: None,
) -> list[ScanCost]:
    """Measure every algorithm on each case, in turn."""
    costs = []
    for case in chosen:
        transition, inputs, initial = drawn(case, device)
        calls: dict[str, Call] = {
            name: partial(_training, transition, inputs, initial, name) for name in CANDIDATES
        }
        measured = alternate(calls, rounds, seconds)
        fastest = min(CANDIDATES, key=measured.time)
        size = size_of(transition, inputs, initial)
        for name in CANDIDATES:
            ratio = measured.ratio(name, fastest)
            costs.append(ScanCost(size, case.batch, name, measured.time(name), ratio))
        tell(f"{size.structure} {size.block}, T {size.length:,}, B {case.batch}: {fastest}")
    return costs


def drawn(case: Case, device: torch.device) -> tuple[Transition, Tensor, Tensor]:
    """Return the transition, inputs and x_0 of a case: numbers within the unit circle."""
    source = torch.Generator().manual_seed(0)
    complex_ = case.structure.endswith("complex")

    def numbers(*shape: int, scale: float = 1.0) -> Tensor:
        dtype = torch.complex64 if complex_ else torch.float32
        values = scale * torch.randn(*shape, dtype=dtype, generator=source)
        return values.to(device).requires_grad_()

    blocked = "blocks" in case.structure
    state = (case.width // case.block, case.block) if blocked else (case.width,)
    matrix = (*state, case.block) if blocked else state
    scale = 0.5 / case.block
    rows, positions = (1, SYMBOLS) if case.indexed else (case.batch, case.length)
    inputs, initial = numbers(rows, positions, *state), numbers(case.batch, *state)
    if case.structure.startswith("constant"):
        values = numbers(*matrix, scale=scale)
        constant = ConstantBlocks(values) if blocked else ConstantDiagonal(values)
        return constant, inputs, initial
    values = numbers(rows, positions, *matrix, scale=scale)
    form = BlockDiagonal(values) if blocked else Diagonal(values)
    if not case.indexed:
        return form, inputs, initial
    index = torch.randint(SYMBOLS, (case.batch, case.length), generator=source).to(device)
    return Indexed(form, index), inputs, initial


def _training(transition: Transition, inputs: Tensor, initial: Tensor, algorithm: str) -> None:
    table = transition.table if isinstance(transition, Indexed) else transition
    values = getattr(table, "values", None)
    values = table.blocks if values is None else values  # type: ignore[union-attr]
    states = scan(transition, inputs, initial, algorithm)
    torch.autograd.grad(states.abs().sum(), [values, inputs, initial])
    if states.is_cuda:
        torch.cuda.synchronize()


def write_table(costs: Sequence[ScanCost], path: Path) -> None:
    """Write the fastest algorithm of each size, for `algorithm=auto`; UserError if refused."""
    best = [cost for cost in costs if cost.times_fastest == 1.0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for cost in best:
                assert cost.algorithm in ALGORITHMS
                writer.writerow([*cost.size, cost.algorithm])
    except OSError as error:
        raise UserError(f"--output '{path}': {(error.strerror or str(error)).lower()}") from error
