"""The fixed-point solver: all states of a non-linear recurrence at once, by linear scans.

Su, kexue.fm 9783, Eq. 3; Lim, Zhu, Selfridge & Kasim, "Parallelizing non-linear sequential models
over the sequence length", arXiv:2309.12252 (DEER). From an iterate X with x_0 given, and matrices
J_k in place of the Jacobians (`fixed_point_surrogates.py`),

    x'_k = f(x_{k-1}, u_k) + J_k (x'_{k-1} - x_{k-1})

is solved by one linear scan. Here the scan is over what changes, d = X' - X:

    r_k = f(x_{k-1}, u_k) - x_k,   d_k = J_k d_{k-1} + r_k,   x'_k = f(x_{k-1}, u_k) + (d_k - r_k)

which is the same, and exact where it matters: wherever the states up to k-1 no longer change,
x'_k is f(x_{k-1}, u_k) to the last bit. Hence the prefix property, in floating point too: after n
iterations the first n states are those of the loop, whatever J is; T iterations always suffice.

The beginning is X = 0. Iterations of a string end when |d| <= atol + rtol |x| for every number of
it (DEER's criterion), or at a cap. Between iterations what is not a number becomes 0, and what is
beyond LARGEST is cut off: with matrices that grow, a linear scan overflows where f is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.mixers.nonlinear.fixed_point_surrogates import (
    INPUT,
    Linear,
    Surrogate,
    advance,
    corrections,
    fixed_linear,
    linear_at,
    product,
)
from lrbench.mixers.nonlinear.recurrence import Recurrence, StateMap, one_before

LARGEST = 1e8
ROUNDING = 64  # units in the last place of numbers of order one
FROZEN = 0.01
GATHER = 4  # those left are moved together once a quarter of the strings has converged
# (atol, rtol) of DEER by number type
TOLERANCES = {torch.float32: (1e-4, 1e-3), torch.float64: (1e-6, 1e-4)}


@dataclass(frozen=True)
class Limits:
    """When to stop: tolerances (None: DEER's for the number type) and a cap (None: T)."""

    atol: float | None = None
    rtol: float | None = None
    most: int | None = None

    def tolerances(self, dtype: torch.dtype) -> tuple[float, float]:
        """Return (atol, rtol) for numbers of a type."""
        atol, rtol = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
        return (
            atol if self.atol is None else self.atol,
            rtol if self.rtol is None else self.rtol,
        )


@dataclass(frozen=True)
class Solution:
    """The last iterate, (T, B, N), how many iterations it took and whether they had converged."""

    states: Tensor
    iterations: int
    converged: bool


@torch.no_grad()
def solve(
    recurrence: Recurrence,
    surrogate: Surrogate,
    drive: Tensor,
    start: Tensor,
    limits: Limits,
    algorithm: str = "auto",
) -> Solution:
    """Iterate until the states of all strings have converged; no gradient goes through it.

    Args:
        recurrence, surrogate: f, and which Jacobians of it.
        drive, start: u (T, B, M) and x_0 (B, N).
        limits: tolerances and the cap.
        algorithm: of the linear scans.
    """
    most = len(drive) if limits.most is None else min(limits.most, len(drive))
    work = _Work(recurrence, surrogate, drive, start, limits, algorithm)
    for count in range(1, most + 1):
        work.sweep()
        if work.finished:
            return Solution(work.states(), count, True)
    # The T-th iteration made the last state of converged ones, which no change of its own shows.
    return Solution(work.states(), most, most == len(drive) and work.holds())


class _Work:
    """An iterate, and which strings and positions of it are still iterated.

    A string that has converged is kept as it is then: further iterations could take it away again
    where the matrices grow. The others are moved together from time to time. Of those the beginning
    is left alone up to the first position where a number still changes by more than a hundredth of
    atol.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        surrogate: Surrogate,
        drive: Tensor,
        start: Tensor,
        limits: Limits,
        algorithm: str,
    ) -> None:
        self.recurrence, self.surrogate, self.algorithm = recurrence, surrogate, algorithm
        self.atol, self.rtol = limits.tolerances(drive.dtype)
        zeros = start.new_zeros(len(drive), *start.shape)
        self.iterate = torch.cat([start[None], zeros])  # x_0..x_T
        self.whole = torch.empty_like(self.iterate)  # with the strings that have converged
        self.drive, self.strings = drive, torch.arange(len(start))
        self.done = torch.zeros(len(start), dtype=torch.bool)
        self.first = 0  # the position that iterations begin with
        self.fixed = fixed_linear(surrogate, recurrence, drive)

    @property
    def finished(self) -> bool:
        return bool(self.done.all())

    def states(self) -> Tensor:
        """Return x_1..x_T of all strings."""
        self._keep(~self.done)
        return self.whole[1:]

    def sweep(self) -> None:
        """Do one iteration of what is left."""
        before, drive = self.iterate[self.first : -1], self.drive[self.first :]
        states = self.iterate[self.first + 1 :]
        after, gates = self.recurrence.evaluate(before, drive)
        linear = self.fixed or linear_at(self.surrogate, self.recurrence, before, after, gates)
        changes = advance(linear, after, states, self.algorithm)
        self._leave(*self._judge(changes, states))

    def holds(self) -> bool:
        """Tell whether f gives what it is given back, within the tolerances, for what is left.

        Never to the last bit: products of other shapes are summed in another order.
        """
        before, states = self.iterate[:-1], self.iterate[1:]
        residuals = self.recurrence.evaluate(before, self.drive)[0] - states
        self.atol = max(self.atol, ROUNDING * torch.finfo(states.dtype).eps)
        return bool(self._judge(residuals, states)[0].all())

    def _judge(self, changes: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Tell, on the host, which positions (T, B) have converged and which are to be left.

        What is not a number or too large is cut off. `changes` are overwritten.
        """
        sizes, changes = states.abs(), changes.abs_()
        wild = ~(sizes.amax() <= LARGEST)
        largest = changes.amax(-1)
        excess = changes.sub_(sizes, alpha=self.rtol).amax(-1)
        flags = torch.stack([excess <= self.atol, largest <= FROZEN * self.atol])
        flags = torch.cat([flags.flatten(), wild[None]]).cpu()
        if flags[-1]:
            torch.nan_to_num(states, 0.0, LARGEST, -LARGEST, out=states)
            states.clamp_(-LARGEST, LARGEST)
        small, still = flags[:-1].view(2, *largest.shape)
        return small, still

    def _leave(self, small: Tensor, still: Tensor) -> None:
        """Leave strings whose changes are `small` and positions that are `still`, (T, B)."""
        ended = small.all(0) & ~self.done
        self._keep(ended)
        self.done |= ended
        moving = ~still[:, ~self.done].all(1)
        forward = int(moving.to(torch.uint8).argmax()) if bool(moving.any()) else 0
        self.first += forward
        gather = int(self.done.sum()) * GATHER >= len(self.done) and not self.finished
        if gather:
            left = (~self.done).nonzero()[:, 0]
            at = left.to(self.drive.device)
            self.iterate, self.drive = self.iterate[:, at], self.drive[:, at]
            self.strings, self.done = self.strings[left], self.done[left]
        if self.surrogate.at == INPUT and (forward or gather):
            at_input = self.drive[self.first :]
            self.fixed = fixed_linear(self.surrogate, self.recurrence, at_input)

    def _keep(self, some: Tensor) -> None:
        """Keep the iterate of `some` of the strings (B) as the solution."""
        if bool(some.all()) and len(some) == self.whole.shape[1]:
            self.whole = self.iterate
        elif bool(some.any()):
            device, at = self.whole.device, some.nonzero()[:, 0]
            self.whole[:, self.strings[at].to(device)] = self.iterate[:, at.to(device)]


def unrolled(
    state_map: StateMap, linear: Linear, drive: Tensor, starts: Tensor, algorithm: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Return the n-th iterate (T, B, N) and what all of them are at its end, (B, n, N).

    Differentiable, through all n scans. The Jacobians are those of every iteration. Iterate 0 is
    zero everywhere; `starts` (B, n, N) tells what the others were before the first position.
    """
    before, begun, ends = None, torch.zeros_like(starts[:, 0]), []
    states: Tensor | None = None
    for start in starts.unbind(1):
        after, _ = state_map.evaluate(before, drive)
        residuals = after if states is None else after - states
        changes = corrections(linear, residuals, start - begun, algorithm)
        states = changes if states is None else states + changes
        ends.append(states[-1])
        before, begun = one_before(states, start), start
    assert states is not None
    return states, torch.stack(ends, 1)


def online(state_map: StateMap, linear: Linear, drive: Tensor, states: Tensor) -> Tensor:
    """Return the iterates 1..n (B, n, N) at a position from those before it, in O(n N) memory.

    `drive` is u (B, M) of the position, `linear` its Jacobians.
    """
    lower, after = None, []
    for state in states.unbind(1):
        value, _ = state_map.evaluate(lower, drive)
        after.append(value + product(linear, state if lower is None else state - lower))
        lower = state
    return torch.stack(after, 1)
