"""Telemetry of mixers in training besides the loss, such as the iterations of a solver."""

from __future__ import annotations

from typing import Any

from torch import nn

from lrbench.mixers.base import Mixer

Sums = dict[str, tuple[float, int]]  # name: (sum, count)
CONVERGED = "converged"  # of 0s and 1s; anything but 1 is worth a warning


class Telemetry:
    """Means of what the mixers of one model tell: since the last log and over the run.

    `latest` holds the means at the last log; `failed_at` the first log whose `converged` was not 1.
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self.pending: Sums = dict(state.get("pending", {}))
        self.whole: Sums = dict(state.get("whole", {}))
        self.failed_at: int | None = state.get("failed_at")
        self.latest: dict[str, float] = {}

    def collect(self, model: nn.Module) -> None:
        """Ask the mixers."""
        for module in model.modules():
            if isinstance(module, Mixer):
                self.pending = _sum(self.pending, module.telemetry())

    def take(self, model: nn.Module, step: int) -> None:
        """Make `latest` the means since this was last called."""
        self.collect(model)
        self.latest = _means(self.pending)
        self.whole, self.pending = _sum(self.whole, self.pending), {}
        if self.latest.get(CONVERGED, 1.0) < 1 and self.failed_at is None:
            self.failed_at = step

    def summary(self) -> dict[str, Any]:
        """Return the means over the run so far, nothing where no mixer told anything."""
        found: dict[str, Any] = _means(_sum(self.whole, self.pending))
        if CONVERGED in found:
            found["failed_at"] = self.failed_at
        return found

    def state(self, model: nn.Module) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        self.collect(model)
        return {"pending": self.pending, "whole": self.whole, "failed_at": self.failed_at}


def _sum(one: Sums, other: Sums) -> Sums:
    names = dict.fromkeys([*one, *other])
    pairs = {name: (one.get(name, (0.0, 0)), other.get(name, (0.0, 0))) for name in names}
    return {name: (a[0] + b[0], a[1] + b[1]) for name, (a, b) in pairs.items()}


def _means(sums: Sums) -> dict[str, float]:
    return {name: total / count for name, (total, count) in sums.items() if count}
