"""Images of boxes: what recurrent networks make of every state in a box, by a symbol.

A network is a stack of layers of one kind, read by LayerNorm and a linear map. Of each layer a box
holds an interval for each number that it carries: h, of an lstm h and then c. A layer reads the new
h of the one below. Boxes are for what float32 computes, in any order of summation: each image is
widened by a bound on its rounding.

The checker (check/), which has the last word, was written apart from this.
Theory: docs/certificates.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

Numbers = NDArray[np.float64]
Sides = tuple[Numbers, Numbers]  # lo and hi, (N, n) each

UNIT = 2.0**-24  # half a unit in the last place of 1 in float32
CURVE = 8  # units that tanh and logistic may err by
LEAST = 2e-20  # that subnormals may add up to
GATES = {"tanh": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class Layer:
    """One layer of n units that reads m numbers.

    w (G n, m), u (G n, n), b and c (G n,), torch's G gates one above the other.
    """

    w: Numbers
    u: Numbers
    b: Numbers
    c: Numbers

    @property
    def units(self) -> int:
        """How many numbers its output has: n."""
        return int(self.u.shape[1])


@dataclass(frozen=True)
class Head:
    """LayerNorm and a linear map: scale and shift (n,), weight (C, n), bias (C,)."""

    scale: Numbers
    shift: Numbers
    weight: Numbers
    bias: Numbers
    eps: float = 1e-5


@dataclass(frozen=True)
class Cells:
    """A stack of `kind` (tanh, gru or lstm) over symbols, and its head, in float64.

    table (S, E): the vector of each symbol.
    """

    kind: str
    table: Numbers
    layers: tuple[Layer, ...]
    head: Head

    @property
    def carried(self) -> int:
        """Numbers of the carried state: D."""
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Numbers that each layer carries."""
        return [layer.units * (2 if self.kind == "lstm" else 1) for layer in self.layers]

    @property
    def outputs(self) -> NDArray[np.bool_]:
        """Which of the carried numbers (D,) are outputs of a layer, and not an lstm's c."""
        pairs = zip(self.layers, self.sizes, strict=True)
        return np.concatenate([np.arange(size) < layer.units for layer, size in pairs])

    def named(self, number: int) -> str:
        """Return what a person calls one of the carried numbers: 'unit 3 of layer 2'."""
        layer = 0
        while number >= self.sizes[layer]:
            number -= self.sizes[layer]
            layer += 1
        part, unit = divmod(number, self.layers[layer].units)
        where = f" of layer {layer + 1}" if len(self.layers) > 1 else ""
        return f"{'c of ' if part else ''}unit {unit}{where}"

    @property
    def read(self) -> slice:
        """Where in a state the numbers are that the norm reads."""
        end = self.carried - (self.layers[-1].units if self.kind == "lstm" else 0)
        return slice(end - self.layers[-1].units, end)


def cells_of(model: nn.Module, config: dict[str, Any]) -> Cells | str:
    """Return what boxes need of a model, or why no proof by boxes is sought for it.

    config: the `model` node of its configuration.
    """
    name, mixer, stack = (config.get(key, {}) for key in ("name", "mixer", "backbone"))
    if name not in ("rnn", "elman", "gru", "lstm"):
        return f"no proof is sought for {name}: boxes are for rnn, elman, gru and lstm"
    if name == "rnn" and mixer.get("nonlinearity") != "tanh":
        return f"no proof is sought for rnn with {mixer.get('nonlinearity')}: boxes need tanh"
    numbers = numbers_of(model, stack)
    if isinstance(numbers, str):
        return numbers
    layers = tuple(_layer(numbers, f"mixers.{i}.") for i in range(int(config["layers"])))
    table = numbers.get("embedding.weight", np.eye(layers[0].w.shape[1]))
    kind = "tanh" if name in ("rnn", "elman") else name
    return Cells(kind, table, layers, head_of(numbers))


def numbers_of(model: nn.Module, stack: dict[str, Any]) -> dict[str, Numbers] | str:
    """Return the weights in float64 by name, or why no proof is sought in such a stack."""
    if stack.get("name") != "bare":
        return f"no proof is sought in the stack {stack.get('name')}: proofs are for bare"
    if not stack.get("norm") or stack.get("hidden"):
        return "no proof is sought for this stack: it needs norm=true and hidden=0"
    state = {part: value.detach().cpu() for part, value in model.state_dict().items()}
    if any(str(value.dtype) != "torch.float32" for value in state.values()):
        return "no proof is sought for weights that are not float32"
    return {part: value.double().numpy() for part, value in state.items()}


def head_of(numbers: dict[str, Numbers]) -> Head:
    """Return norm and head of the stack `bare`."""
    norm = numbers["norm.weight"], numbers["norm.bias"]
    return Head(*norm, numbers["head.0.weight"], numbers["head.0.bias"])


def _layer(numbers: dict[str, Numbers], place: str) -> Layer:
    if place + "matrix" in numbers:  # elman
        bias = numbers[place + "input.bias"]
        weight = numbers[place + "input.weight"]
        return Layer(weight, numbers[place + "matrix"], bias, np.zeros_like(bias))
    place += "network."
    parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return Layer(*(numbers[place + part] for part in parts))


def images(net: Cells, symbol: int, lo: Numbers, hi: Numbers) -> Sides:
    """Return boxes (N, D) around what float32 makes of boxes (N, D) by a symbol."""
    return images_and_keeping(net, symbol, lo, hi)[0]


def images_and_keeping(net: Cells, symbol: int, lo: Numbers, hi: Numbers) -> tuple[Sides, Numbers]:
    """Return the images, and the largest part of itself (N, D) that each number keeps by a gate."""
    below: Sides = (net.table[symbol][None], net.table[symbol][None])
    lows, highs, kept, at = [], [], [], 0
    for layer, size in zip(net.layers, net.sizes, strict=True):
        state = lo[:, at : at + size], hi[:, at : at + size]
        at += size
        (low, high), keeps = STEPS[net.kind](layer, below, state)
        lows.append(low)
        highs.append(high)
        kept.append(keeps)
        below = low[:, : layer.units], high[:, : layer.units]
    return (np.concatenate(lows, 1), np.concatenate(highs, 1)), np.concatenate(kept, 1)


def _tanh_step(layer: Layer, below: Sides, h: Sides) -> tuple[Sides, Numbers]:
    after = _squashed(np.tanh, _sums(layer, below, h))
    return after, np.zeros_like(after[0])


def _gru_step(layer: Layer, below: Sides, h: Sides) -> tuple[Sides, Numbers]:
    n = layer.units
    gates = _squashed(_logistic, _sums(layer, below, h, slice(0, 2 * n)))
    (r_lo, z_lo), (r_hi, z_hi) = np.hsplit(gates[0], 2), np.hsplit(gates[1], 2)
    rows = slice(2 * n, 3 * n)
    least, most, reach = _product(layer.u[rows], h)
    terms = _rounding(n, reach + np.abs(layer.c[rows]))
    least, most = least + layer.c[rows] - terms, most + layer.c[rows] + terms
    reset_lo, reset_hi = _scaled((r_lo, r_hi), (least, most))
    size = np.maximum(np.abs(reset_lo), np.abs(reset_hi))
    in_lo, in_hi, in_reach = _product(layer.w[rows], below)
    terms = _rounding(layer.w.shape[1], in_reach + np.abs(layer.b[rows]) + size)
    inner = in_lo + layer.b[rows] + reset_lo - terms, in_hi + layer.b[rows] + reset_hi + terms
    new_lo, new_hi = _squashed(np.tanh, inner)
    # h' = n + z (h - n) grows with n and with h for z from 0 to 1; that z may be 8 units outside,
    # and that the sum is rounded, is in `slack`
    lows = [new_lo + z * (h[0] - new_lo) for z in (z_lo, z_hi)]
    highs = [new_hi + z * (h[1] - new_hi) for z in (z_lo, z_hi)]
    span = np.maximum(np.abs(new_lo), np.abs(new_hi)) + np.maximum(np.abs(h[0]), np.abs(h[1]))
    slack = 2 * CURVE * UNIT * span + 2 * CURVE * UNIT * (new_hi - new_lo + h[1] - h[0]) + LEAST
    return (np.minimum(*lows) - slack, np.maximum(*highs) + slack), z_hi


def _lstm_step(layer: Layer, below: Sides, state: Sides) -> tuple[Sides, Numbers]:
    n = layer.units
    h, cell = (state[0][:, :n], state[1][:, :n]), (state[0][:, n:], state[1][:, n:])
    least, most = _sums(layer, below, h)
    sides = [(least[:, k * n : (k + 1) * n], most[:, k * n : (k + 1) * n]) for k in range(4)]
    take, keep, show = (_squashed(_logistic, sides[k]) for k in (0, 1, 3))
    kept, written = _scaled(keep, cell), _scaled(take, _squashed(np.tanh, sides[2]))
    low, high = kept[0] + written[0], kept[1] + written[1]
    sizes = [np.maximum(np.abs(part[0]), np.abs(part[1])) for part in (kept, written)]
    slack = 8 * UNIT * (sizes[0] + sizes[1]) + LEAST
    cell = low - slack, high + slack
    out = _scaled(show, _squashed(np.tanh, cell))
    after = np.concatenate([out[0], cell[0]], 1), np.concatenate([out[1], cell[1]], 1)
    return after, np.concatenate([np.zeros_like(keep[1]), keep[1]], 1)


STEPS = {"tanh": _tanh_step, "gru": _gru_step, "lstm": _lstm_step}


def _sums(layer: Layer, below: Sides, h: Sides, rows: slice = slice(None)) -> Sides:
    """Return the intervals of W u + b + U h + c, rounding included."""
    in_lo, in_hi, in_reach = _product(layer.w[rows], below)
    own_lo, own_hi, own_reach = _product(layer.u[rows], h)
    b, c = layer.b[rows], layer.c[rows]
    rounding = _rounding(
        layer.w.shape[1] + layer.units, in_reach + own_reach + np.abs(b) + np.abs(c)
    )
    return in_lo + own_lo + b + c - rounding, in_hi + own_hi + b + c + rounding


def _product(w: Numbers, x: Sides) -> tuple[Numbers, Numbers, Numbers]:
    """Return least, most and the largest sum of absolute terms of W x."""
    positive, negative = np.maximum(w, 0).T, np.minimum(w, 0).T
    reach = np.maximum(np.abs(x[0]), np.abs(x[1])) @ np.abs(w).T
    return x[0] @ positive + x[1] @ negative, x[1] @ positive + x[0] @ negative, reach


def _rounding(terms: int, reach: Numbers) -> Numbers:
    """Return what float32 may err in sums of so many products, in any order."""
    count = 2 * terms + 16
    return count * UNIT / (1 - count * UNIT) * reach + LEAST


def _squashed(curve: Any, x: Sides) -> Sides:
    return curve(x[0]) - CURVE * UNIT, curve(x[1]) + CURVE * UNIT


def _logistic(x: Numbers) -> Numbers:
    """Return 1 / (1 + exp(-x)), by way of tanh, which does not overflow."""
    half: Numbers = 0.5 * np.tanh(0.5 * x) + 0.5
    return half


def _scaled(gate: Sides, x: Sides) -> Sides:
    """Return the intervals of products; gates reach from 0 to 1 but for their rounding."""
    lows = np.minimum(gate[0] * x[0], gate[1] * x[0])
    highs = np.maximum(gate[0] * x[1], gate[1] * x[1])
    beyond = 2 * CURVE * UNIT * np.maximum(np.abs(x[0]), np.abs(x[1])) + LEAST
    return lows - beyond, highs + beyond


def leads(head: Head, answers: NDArray[np.int64], lo: Numbers, hi: Numbers) -> Numbers:
    """Return by how much (N,) the right logits lead, before rounding; <= 0: they do not.

    lo, hi (N, n): boxes of what the norm reads. The logits' differences are linear in the centred
    numbers, over their standard deviation.
    """
    n = len(head.scale)
    middle, radius = (lo + hi) / 2, (hi - lo) / 2
    centred = middle - middle.mean(1, keepdims=True)
    spread = radius * (1 - 1 / n) + (radius.sum(1, keepdims=True) - radius) / n
    nearest = np.maximum(np.abs(centred) - spread, 0)
    sigma_lo = np.sqrt((nearest**2).mean(1) + head.eps)
    sigma_hi = np.sqrt(((np.abs(centred) + spread) ** 2).mean(1) + head.eps)
    least = np.full(len(lo), np.inf)
    for answer in np.unique(answers):
        rows = answers == answer
        for other in range(len(head.weight)):
            if other == answer:
                continue
            apart = head.weight[answer] - head.weight[other]
            v = apart * head.scale
            v = v - v.mean()
            k = apart @ head.shift + head.bias[answer] - head.bias[other]
            lead = middle[rows] @ v - radius[rows] @ np.abs(v)
            lead = lead + np.minimum(k * sigma_lo[rows], k * sigma_hi[rows])
            least[rows] = np.minimum(least[rows], lead / sigma_hi[rows])
    return least
