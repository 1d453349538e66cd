"""An arithmetic whose every rounding goes the way that is asked for, as far as it may.

What float32 computes lies between its two ways if its unit is 2^-24. With a larger unit the bounds
on rounding can be seen at work, and a bound with too few roundings in it is too small. Written from
the equations of the cells, one rounding an operation; numbers are vectors, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
CURVE = 8  # units that tanh and logistic may err by


@dataclass
class Adverse:
    """Arithmetic of a `unit`. A way is 1 (too large), -1 (too small), or one of these a number."""

    unit: float

    def rounded(self, value: Array, way: Array) -> Array:
        """Return a result as it is rounded."""
        return value + way * self.unit * np.abs(value)

    def total(self, terms: Array, way: Array) -> Array:
        """Return the sums (m,) of terms (m, k), in the order in which most is lost."""
        ordered = np.sort(terms, axis=1)[:, ::-1]  # what is positive first: large partial sums
        if np.ndim(way) == 0 and way < 0:
            ordered = ordered[:, ::-1]
        found = ordered[:, 0]
        for term in ordered.T[1:]:
            found = self.rounded(found + term, way)
        return found

    def affine(self, products: list[tuple[Array, Array]], added: list[Array], way: Array) -> Array:
        """Return the sum (m,) of all W x and all vectors."""
        each = way[:, None] if np.ndim(way) else way
        terms = [self.rounded(w * x, each) for w, x in products]
        return self.total(np.concatenate([*terms, *(v[:, None] for v in added)], axis=1), way)

    def curve(self, function: Any, x: Array, way: Array) -> Array:
        """Return tanh or logistic."""
        return function(x) + way * CURVE * self.unit

    def cell(self, kind: str, layer: Any, x: Array, state: Array, way: Array) -> Array:
        """Return the new state of a `Layer`, pushed the way that is given for each unit (n,)."""
        w, u, b, c = layer.w, layer.u, layer.b, layer.c
        n = u.shape[1]
        h, parts = state[:n], [slice(k * n, (k + 1) * n) for k in range(len(w) // n)]

        def gate(k: int, way: Array) -> Array:
            rows = parts[k]
            return self.affine([(w[rows], x), (u[rows], h)], [b[rows], c[rows]], way)

        if kind == "tanh":
            return self.curve(np.tanh, gate(0, way), way)
        if kind == "lstm":
            cell, written = state[n:], self.curve(np.tanh, gate(2, way), way)
            kept = np.sign(cell) * way
            kept = self.rounded(self.curve(logistic, gate(1, kept), kept) * cell, way)
            most = np.sign(written) * way
            written = self.rounded(self.curve(logistic, gate(0, most), most) * written, way)
            cell = self.rounded(kept + written, way)
            shown = self.curve(np.tanh, cell, way)
            most = np.sign(shown) * way
            shown = self.rounded(self.curve(logistic, gate(3, most), most) * shown, way)
            return np.concatenate([shown, cell])
        rows = parts[2]
        own = self.affine([(u[rows], h)], [c[rows]], way)
        most = np.sign(own) * way
        reset = self.rounded(self.curve(logistic, gate(0, most), most) * own, way)
        new = self.curve(np.tanh, self.affine([(w[rows], x)], [b[rows], reset], way), way)
        most = np.sign(h - new) * way
        z = self.curve(logistic, gate(1, most), most)
        inner = self.rounded(z * self.rounded(h - new, np.sign(z) * way), way)
        one = self.rounded(new + inner, way)  # n + z (h - n)
        share = self.rounded(self.rounded(1 - z, np.sign(new) * way) * new, way)
        other = self.rounded(share + self.rounded(z * h, way), way)  # (1 - z) n + z h
        return np.where(way > 0, np.maximum(one, other), np.minimum(one, other))

    def lead(self, head: Any, pair: tuple[int, int], x: Array, ways: Any) -> float:
        """Return by how much the first class of a pair leads the other, as little as it may.

        ways: of the mean, of the variance, and whether that is a mean of squares less a square.
        """
        (scale, shift, weight, bias, eps), (right, wrong) = head, pair
        mean_way, way, one_pass = ways
        mean = self.rounded(self.total(x[None], mean_way)[0] / len(x), mean_way)
        down = -np.sign(weight[right] - weight[wrong])
        centred = self.rounded(x - mean, down * np.sign(scale))
        squares = self.rounded((x if one_pass else centred) ** 2, way)
        variance = self.rounded(self.total(squares[None], way)[0] / len(x), way)
        if one_pass:
            variance = self.rounded(variance - self.rounded(mean**2, -way), way)
        root = self.rounded(np.sqrt(self.rounded(variance + eps, way)), way)
        normal = self.rounded(centred * self.rounded(1 / root, -way), down * np.sign(scale))
        y = self.rounded(self.rounded(normal * scale, down) + shift, down)
        logits = [
            self.affine([(weight[k][None], y)], [bias[k : k + 1]], side)[0]
            for k, side in ((right, -1), (wrong, 1))
        ]
        return float(logits[0] - logits[1])


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))
