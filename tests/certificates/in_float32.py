"""Recurrent networks in float32, each sum in an order drawn anew: what a certificate speaks of.

Written from the equations of the cells, in numpy, one rounding an operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class Shuffled:
    """A stack `bare` of rnn, elman, gru or lstm, by its weights; symbols one-hot or embedded."""

    def __init__(self, name: str, weights: dict[str, Array], seed: int) -> None:
        self.name, self.rng = name, np.random.default_rng(seed)
        self.w = {part: np.asarray(value, np.float32) for part, value in weights.items()}
        own = "matrix" if name == "elman" else "network.weight_hh_l0"
        self.own = [self.w[f"mixers.{i}.{own}"] for i in range(9) if f"mixers.{i}.{own}" in self.w]

    def start(self, batch: int) -> list[Array]:
        """Return zeros (B, n) for each layer, twice as many for an lstm."""
        twice = 2 if self.name == "lstm" else 1
        return [np.zeros((batch, twice * u.shape[1]), np.float32) for u in self.own]

    def step(self, tokens: Array, states: list[Array]) -> tuple[Array, list[Array]]:
        """Read a symbol each, (B,); return logits (B, C) and states after it."""
        if "embedding.weight" in self.w:
            x = self.w["embedding.weight"][tokens]
        else:
            part = "input.weight" if self.name == "elman" else "network.weight_ih_l0"
            x = np.eye(self.w[f"mixers.0.{part}"].shape[1], dtype=np.float32)[tokens]
        after = []
        for layer, state in enumerate(states):
            new = self._cell(layer, x, state)
            after.append(new)
            x = new[:, : self.own[layer].shape[1]]
        return self._head(x), after

    def _cell(self, layer: int, x: Array, state: Array) -> Array:
        if self.name == "elman":
            parts = ("input.weight", "matrix", "input.bias")
            w, u, b = (self.w[f"mixers.{layer}.{part}"] for part in parts)
            c = np.zeros_like(b)
        else:
            parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
            w, u, b, c = (self.w[f"mixers.{layer}.network.{part}"] for part in parts)
        n = u.shape[1]
        h = state[:, :n]
        if self.name in ("rnn", "elman"):
            return np.tanh(self._sum((w, x), (u, h), bias=(b, c)))
        if self.name == "gru":
            gates = [slice(k * n, (k + 1) * n) for k in range(3)]
            r, z = (
                _logistic(self._sum((w[k], x), (u[k], h), bias=(b[k], c[k]))) for k in gates[:2]
            )
            k = gates[2]
            inner = self._sum((w[k], x), bias=(b[k],)) + r * self._sum((u[k], h), bias=(c[k],))
            new = np.tanh(inner)
            if self.rng.random() < 0.5:
                return new + z * (h - new)
            return (np.float32(1) - z) * new + z * h
        a = self._sum((w, x), (u, h), bias=(b, c))
        i, f, g, o = (a[:, k * n : (k + 1) * n] for k in range(4))
        cell = _logistic(f) * state[:, n:] + _logistic(i) * np.tanh(g)
        return np.concatenate([_logistic(o) * np.tanh(cell), cell], 1)

    def _head(self, x: Array) -> Array:
        mean = self._add(x.T)[:, None] / np.float32(x.shape[1])
        centred = x - mean
        variance = self._add((centred * centred).T)[:, None] / np.float32(x.shape[1])
        normal = centred / np.sqrt(variance + np.float32(1e-5))
        normal = normal * self.w["norm.weight"] + self.w["norm.bias"]
        return self._sum((self.w["head.0.weight"], normal), bias=(self.w["head.0.bias"],))

    def _sum(self, *products: tuple[Array, Array], bias: tuple[Array, ...]) -> Array:
        """Return the sum of all W x and biases (B, n), its terms in an order drawn anew."""
        rows = len(products[0][1])
        terms = [w.T[:, None] * x.T[:, :, None] for w, x in products]
        terms += [np.broadcast_to(one, (1, rows, len(one))) for one in bias]
        return self._add(np.concatenate(terms))

    def _add(self, terms: Array) -> Array:
        return np.add.accumulate(self.rng.permutation(terms), axis=0, dtype=np.float32)[-1]


def _logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-x))
