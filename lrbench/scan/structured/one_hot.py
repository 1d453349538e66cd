"""A matrix with a single one in each column, times a diagonal matrix, chosen from a dictionary.

Terzic et al. 2025 (PD-SSM): a state of N complex numbers, which are scaled and then sent on,

    x_k = P_k D_k x_{k-1} + b_k,   D_k = diag(d_k),   P_k the largest of each column of
    M_k = sum_s w_ks M_s.          In rows: x_k = D_k P_k x_{k-1} + b_k, the largest of each row.

By the index i_j of the one in column j, a scan costs N numbers a position, not N^2:

    (P D x)_i = sum of d_j x_j over j with i_j = i             scattered
    (D P x)_j = d_j x_(i_j)                                    gathered
    (P D)' (P D): index i'_(i_j), diagonal d'_(i_j) d_j;   (D P)' (D P): i_(i'_j), d'_j d_(i'_j)

and each form is the transpose of the other, so that one's adjoint scan is the other's scan. The
gradient of P_k, lambda_k (D_k x_{k-1})^T, is taken for that of a softmax over the columns of M_k
(straight through): it is made, pulled back into w and M and forgotten, some positions at a time;
where transitions are looked up, all positions of one symbol are one product.

`act` and `written` are the slow truth: the dense matrices, with autograd's gradients. In place of
the loop over positions there is a compiled one on a processor (`one_hot_loops.py`).

Shapes: weights w (B, T, K); dictionary (K, N, N), [row, column]; values d (B, T, N), real or
complex; states (B, 1, N). Packed, positions first: (T, B, 2, N), the index and d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from lrbench.kernels.choice import usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.rows import rows
from lrbench.scan.algorithms.adjoint import Action, Solve, adjoints_of, in_order, own, states_of
from lrbench.scan.structured.one_hot_loops import one_hot_adjoints, one_hot_states
from lrbench.scan.transitions import BlockDiagonal, Structured

ORIENTATIONS = ("column", "row")
PIECE = 1 << 18  # numbers of M at a time: what stays in a cache


@dataclass(frozen=True)
class OneHotProducts(Structured):
    """A_1..A_T of `weights` w, `dictionary`, `values` d; orientation: a name in ORIENTATIONS."""

    weights: Tensor
    dictionary: Tensor
    values: Tensor
    orientation: str = "column"

    def act(self, position: int, state: Tensor) -> Tensor:
        ones, d = self._ones(self.weights[:, position]), self.values[:, position, None]
        if self.orientation == "column":
            return (d * state) @ ones.mT.to(d.dtype)
        return d * (state @ ones.mT.to(d.dtype))

    def written(self) -> BlockDiagonal:
        ones, d = self._ones(self.weights), self.values
        scaled = d[..., None, :] if self.orientation == "column" else d[..., None]
        return BlockDiagonal((ones * scaled)[:, :, None])

    def scanned(
        self, solve: Solve, index: Tensor | None, inputs: Tensor, initial: Tensor
    ) -> Tensor:
        """Return the states (B, T, 1, N); see `Structured.scanned`."""
        weights, values, b, start = self.weights, self.values, inputs[:, :, 0], initial[:, 0]
        apart = index is None  # each position is a symbol of its own
        if index is None:
            index = torch.arange(len(b) * b.shape[1], device=b.device).view(b.shape[:2])
            weights, values, b = (x.flatten(0, 1) for x in (weights, values, b))
        else:
            weights, values, b = weights[0], values[0], b[0]
        if solve is in_order and self._compiles(values, b, start):
            form = LOOPS[self.orientation]
        else:
            form = _form(self.orientation, solve, apart)
            values, b = rows(values, index), rows(b, index)
        return form(weights, self.dictionary, values, b, start, index)[:, :, None]

    def _compiles(self, *numbers: Tensor) -> bool:
        """Tell whether compiled loops can be used: they are made for complex numbers."""
        dtypes = {x.dtype for x in numbers}
        alike = dtypes == {self.dictionary.dtype.to_complex()}
        return alike and usable(self.dictionary, "one_hot", self.orientation)

    def _ones(self, weights: Tensor) -> Tensor:
        """Return P (..., N, N), whose gradient is that of a softmax, for weights (..., K)."""
        axis = -2 if self.orientation == "column" else -1
        scores = _scores(weights, self.dictionary)
        soft = scores.softmax(axis)
        hard = torch.zeros_like(soft).scatter(axis, scores.argmax(axis, keepdim=True), 1.0)
        return hard + (soft - soft.detach())


class Scatter(Action):
    """P D on states (T, B, N): packed transitions (T, B, 2, N)."""

    def __init__(self) -> None:
        super().__init__(constant=False)

    def add(self, states: Tensor, a: Tensor, before: Tensor) -> None:
        index, d = unpacked(a)
        states.scatter_add_(-1, index, d * before)

    def join(self, later: Tensor, earlier: Tensor) -> Tensor:
        index, d = unpacked(earlier)
        to, factor = later.gather(-1, index[..., None, :].expand_as(later)).unbind(-2)
        return torch.stack([to, factor * d], -2)

    def adjoint(self, a: Tensor) -> Tensor:
        return a.conj().resolve_conj()

    @property
    def of_adjoints(self) -> Action:
        return GATHER

    def slope(self, adjoints: Tensor, before: Tensor) -> Tensor:
        raise NotImplementedError("the gradient goes into a dictionary: see `_backward`")


class Gather(Scatter):
    """D P on states (T, B, N): packed transitions (T, B, 2, N)."""

    def add(self, states: Tensor, a: Tensor, before: Tensor) -> None:
        index, d = unpacked(a)
        states += d * before.gather(-1, index)

    def join(self, later: Tensor, earlier: Tensor) -> Tensor:
        return super().join(earlier, later)

    @property
    def of_adjoints(self) -> Action:
        return SCATTER


SCATTER, GATHER = Scatter(), Gather()
ACTIONS = {"column": SCATTER, "row": GATHER}


def packed(index: Tensor, d: Tensor) -> Tensor:
    """Return index and d (..., N) as one tensor (..., 2, N)."""
    return torch.stack([index.to(d.dtype), d], -2)


def unpacked(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return index and d (..., N) of a packed tensor (..., 2, N)."""
    index, d = a.unbind(-2)
    return index.real.long(), d


@cache
def _form(orientation: str, solve: Solve, apart: bool) -> ClosedForm:
    forward = partial(_forward, orientation=orientation, solve=solve)
    backward = partial(_backward, orientation=orientation, solve=solve, apart=apart)
    return ClosedForm(forward, backward, one_by_one)


def _forward(*tensors: Tensor, orientation: str, solve: Solve) -> tuple[Tensor, Tensor]:
    """Return the states (B, T, N), and the packed transitions (T, B, 2, N).

    weights (M, K), of which `index` (B, T) says which are a position's; values and inputs
    (B, T, N); initial (B, N).
    """
    weights, dictionary, values, inputs, initial, index = tensors
    places, marks = _places(weights, dictionary, orientation)
    a = packed(places[index.T], values.transpose(0, 1) + marks[index.T])
    states = states_of(solve, a, own(inputs), initial, ACTIONS[orientation])
    return states.transpose(0, 1), a


def _backward(*tensors: Tensor, orientation: str, solve: Solve, apart: bool) -> Tensors:
    """Return the gradients; apart: no two positions have a matrix in common.

    On a GPU nothing is counted: the host would wait for it, and a graph that is captured cannot.
    """
    weights, dictionary, _values, _inputs, initial, index, result, a, gradient = tensors
    adjoints, dinitial = adjoints_of(solve, a, gradient, ACTIONS[orientation])
    before = torch.cat([initial[None], result.transpose(0, 1)[:-1]])
    places, d = unpacked(a)
    if orientation == "column":
        dvalues = adjoints.gather(-1, places) * before.conj()
        numbers, lines = d * before, adjoints
    else:
        dvalues = adjoints * before.gather(-1, places).conj()
        numbers, lines = adjoints * d.conj(), before
    numbers, lines = (_parts(x).flatten(0, 1) for x in (numbers, lines))
    symbols, many, at_once = index.T.flatten(), len(weights), _at_once(dictionary)
    if waits(symbols) and not apart:
        slopes = _masked_slopes(numbers, lines, symbols, many, at_once)
    else:
        order, counts = symbols.argsort(), [1] * many
        if not apart:
            order, counts = sorted_symbols(symbols, many)
        slopes = _slopes(numbers[order], lines[order], counts, at_once)
    dweights, ddictionary = _of_choices(weights, dictionary, orientation, slopes)
    return dweights, ddictionary, dvalues.transpose(0, 1), adjoints.transpose(0, 1), dinitial


def _of_choices(
    weights: Tensor,
    dictionary: Tensor,
    orientation: str,
    slopes: Iterator[tuple[slice, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Return the gradients of w (M, K) and of the dictionary, pulled back through the softmax.

    slopes: the gradients of the M matrices (m, N, N), some at a time, and which they are.
    """
    choices = _lines(dictionary, orientation)
    dweights, dchoices = torch.empty_like(weights), torch.zeros_like(choices)
    for piece, slope in slopes:
        soft = _scores(weights[piece], choices).softmax(-1)
        slope *= soft
        slope.addcmul_(soft, slope.sum(-1, keepdim=True), value=-1)
        dweights[piece] = slope.flatten(1) @ choices.flatten(1).T
        dchoices += (weights[piece].T @ slope.flatten(1)).view_as(choices)
    return dweights, _lines(dchoices, orientation)


def _slopes(
    numbers: Tensor, lines: Tensor, counts: list[int], at_once: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the gradients (m, N, N) of matrices some at a time, and which they are.

    numbers and lines (n, 2, N) are the real and imaginary parts of the factors at each of n
    positions: of the numbers that choose, and of what each chooses from; all positions of a matrix
    lie together, `counts` of them.
    """
    many = len(counts)
    if many == len(numbers) and set(counts) == {1}:
        for first in range(0, many, at_once):
            piece = slice(first, min(first + at_once, many))
            yield piece, numbers[piece].mT @ lines[piece]
        return
    positions = list(zip(*(x.split(counts) for x in (numbers, lines)), strict=True))
    for first in range(0, many, at_once):
        few = [x.flatten(0, 1).T @ y.flatten(0, 1) for x, y in positions[first : first + at_once]]
        yield slice(first, first + len(few)), torch.stack(few)


def _masked_slopes(
    numbers: Tensor, lines: Tensor, symbols: Tensor, many: int, at_once: int
) -> Iterator[tuple[slice, Tensor]]:
    """Yield what `_slopes` does, for positions in any order, whose matrices `symbols` (n) number.

    Every position is read for every matrix, and nobody has to know how many each has.
    """
    for first in range(0, many, at_once):
        few = []
        for symbol in range(first, min(first + at_once, many)):
            mine = (symbols == symbol)[:, None, None]
            left, right = (torch.where(mine, x, 0.0).flatten(0, 1) for x in (numbers, lines))
            few.append(left.T @ right)
        yield slice(first, first + len(few)), torch.stack(few)


def _loop_forward(*tensors: Tensor, orientation: str) -> tuple[Tensor, Tensor]:
    """Return the states (B, T, N), and the places (M, N) that the numbers of a state choose.

    weights (M, K), values and inputs (M, N), of which `index` (B, T) says which are a position's;
    initial (B, N).
    """
    weights, dictionary, values, inputs, initial, index = tensors
    places, marks = _places(weights, dictionary, orientation)
    states = one_hot_states(places, values + marks, inputs, initial, index, orientation)
    return states, places


def _loop_backward(*tensors: Tensor, orientation: str) -> Tensors:
    weights, dictionary, values, _inputs, initial, index, result, places, gradient = tensors
    order, counts = sorted_symbols(index.flatten(), len(weights))
    dvalues, dinputs, dinitial, lines, numbers = one_hot_adjoints(
        places, values, initial, index, order, result, gradient, orientation
    )
    slopes = _slopes(numbers, lines, counts, _at_once(dictionary))
    dweights, ddictionary = _of_choices(weights, dictionary, orientation, slopes)
    return dweights, ddictionary, dvalues, dinputs, dinitial


def waits(symbols: Tensor) -> bool:
    """Tell whether the host would wait for what it counts."""
    return symbols.is_cuda


def sorted_symbols(index: Tensor, many: int) -> tuple[Tensor, list[int]]:
    """Return the positions of index (n) by symbol, and how many each of `many` symbols has."""
    return index.argsort(stable=True), torch.bincount(index, minlength=many).tolist()


LOOPS = {
    orientation: ClosedForm(
        partial(_loop_forward, orientation=orientation),
        partial(_loop_backward, orientation=orientation),
        one_by_one,
    )
    for orientation in ORIENTATIONS
}


def _places(weights: Tensor, dictionary: Tensor, orientation: str) -> tuple[Tensor, Tensor]:
    """Return the place (M, N) that each number of a state chooses, for weights (M, K); and zeros.

    These are not numbers where a score is none: what it chooses must not pass for one.
    """
    lines = _lines(dictionary, orientation)
    found = [_scores(w, lines).max(-1) for w in weights.split(_at_once(dictionary))]
    scores = torch.cat([best.values for best in found])
    return torch.cat([best.indices for best in found]), scores * 0


def _lines(dictionary: Tensor, orientation: str) -> Tensor:
    """Return M_s (K, N, N) with what one number of a state chooses from side by side: its own row.

    Along columns in memory, a maximum and a softmax take two to four times as long.
    """
    return dictionary.mT.contiguous() if orientation == "column" else dictionary


def _scores(weights: Tensor, dictionary: Tensor) -> Tensor:
    """Return M (..., N, N) for weights (..., K)."""
    scores: Tensor = (weights @ dictionary.flatten(1)).unflatten(-1, dictionary.shape[1:])
    return scores


def _at_once(dictionary: Tensor) -> int:
    return max(1, PIECE // max(1, dictionary[0].numel()))


def _parts(x: Tensor) -> Tensor:
    """Return the real and imaginary parts of x (..., N) as (..., 2, N)."""
    return torch.stack([x.real, x.imag] if x.is_complex() else [x, torch.zeros_like(x)], -2)
