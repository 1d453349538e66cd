"""Findings of checks: passed, failed or not applicable, with the numbers behind it.

Most checks compare two ways to compute the same thing. A finding says how far apart they are, and
where the difference is largest.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.mixers.states import leaves

LONGEST_TEXT = 160
# A tensor that ought to be zero holds rounding errors of the size of its neighbours: it is
# compared on this fraction of their scale.
SHARE = 1e-3


@dataclass(frozen=True)
class Finding:
    """One line of a contract's report; `passed` is None where the check does not apply.

    `trace` is the traceback where the mixer's own code raised: a bug that its author has to see.
    """

    name: str
    passed: bool | None
    detail: str
    trace: str = ""

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "FAILED", None: "not applicable"}[self.passed]

    def __str__(self) -> str:
        return f"{self.verdict:<14}  {self.name:<13}  {self.detail}"


def not_applicable(name: str, reason: str) -> Finding:
    """Return the finding of a check that this mixer or machine gives no occasion for."""
    return Finding(name, None, reason)


def raised(name: str, error: Exception) -> Finding:
    """Return the failure of a check in which the mixer's code raised `error`."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 3] + "..."
    told = isinstance(error, UserError)  # says all there is to say
    return Finding(
        name, False, f"raised {text}", "" if told else "".join(traceback.format_exception(error))
    )


def tensors_of(state: Any) -> list[Tensor]:
    """Return the tensors of a state or result; raises TypeError for whatever else is in it."""
    return leaves(state, strict=True)


def alike(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same shape and values, nan equal to nan."""
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def largest(tensor: Tensor) -> float:
    """Return the largest magnitude in a tensor, inf if one is not finite."""
    if tensor.numel() == 0:
        return 0.0
    size = float(tensor.detach().abs().max())
    return size if math.isfinite(size) else math.inf


class Comparison:
    """The largest relative difference met so far, over the reference's largest magnitude.

    `floor` is the least magnitude that differences are divided by: 1.0 makes the tolerance an
    absolute one for numbers of order one.
    """

    def __init__(self, tolerance: float, floor: float = 1e-30) -> None:
        self.tolerance = tolerance
        self.floor = floor
        self.worst = 0.0
        self.where = ""
        self.shapes = ""

    def add(self, where: str, ours: Any, theirs: Any) -> None:
        """Compare tensors (or tuples of them) with reference ones; `where` is told if worst."""
        found, expected = tensors_of(ours), tensors_of(theirs)
        if [t.shape for t in found] != [t.shape for t in expected]:
            self.shapes = f"{where}: shapes {_shapes(found)}, expected {_shapes(expected)}"
            self._note(math.inf, where)
            return
        for difference in _relative(found, expected, self.floor):
            self._note(difference, where)

    def finding(self, name: str, subject: str) -> Finding:
        """Return whether all that was compared agrees, with the largest difference."""
        if self.shapes:
            return Finding(name, False, f"{subject}: {self.shapes}")
        passed = self.worst <= self.tolerance
        size = "not finite" if math.isinf(self.worst) else f"{self.worst:.1e}"
        place = f" ({self.where})" if self.where else ""
        return Finding(
            name, passed, f"{subject}: largest difference {size}{place}; allowed {self.tolerance:g}"
        )

    def _note(self, difference: float, where: str) -> None:
        if difference > self.worst:
            self.worst, self.where = difference, where


def _relative(found: Sequence[Tensor], expected: Sequence[Tensor], floor: float) -> list[float]:
    scales = [largest(tensor) for tensor in expected]
    finite = [scale for scale in scales if math.isfinite(scale)]
    least = max(floor, SHARE * max(finite, default=0.0))
    return [
        _difference(a, b) / max(scale, least) if math.isfinite(scale) else math.inf
        for a, b, scale in zip(found, expected, scales, strict=True)
    ]


def _difference(a: Tensor, b: Tensor) -> float:
    exact = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return largest(a.detach().to("cpu", exact) - b.detach().to("cpu", exact))


def _shapes(tensors: Sequence[Tensor]) -> str:
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
