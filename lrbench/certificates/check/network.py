"""The network that a certificate is about, from its settings and weights.

    rnn, elman  h' = tanh(W u + b + U h + c)                       (elman has no c)
    gru         r, z = logistic(W u + b + U h + c), by rows;  n = tanh(W u + b + r (U h + c))
                h' = n + z (h - n)
    lstm        i, f, o = logistic(..), g = tanh(..);  c' = f c + i g;  h' = o tanh(c')
    blockdiag   h' = A_s h, one layer: each column of A_s is zero but for one entry 1 or -1, so that
                states of whole numbers are moved about without rounding; their boxes are points
    logits = H (gamma (h' - mean) / sqrt(variance + eps) + beta) + d

A stack of layers, each of which reads u, the new output of the layer below it, the first one a
vector of the symbol; LayerNorm and a linear map read the last. Every setting is known here, and
fits the weights or the file is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .enclosures import CURVE32, U32, Array, exact
from .reading import MOST_BYTES, check_known, need

MOST_SYMBOLS = 1003
# Beyond these float32 might overflow, and the bounds say nothing of infinity.
LARGEST_WEIGHT, MOST_UNITS = 1e6, 100_000
MOST_OUTPUTS = 4096  # that the norm reads: the margin makes a matrix of as many rows and columns
LARGEST_P = 1e6  # of a norm of columns: one that float32 takes for infinite makes no number
ARITHMETIC = {
    "unit": U32,
    "tanh_error": CURVE32,
    "logistic_error": CURVE32,
    "format": "float32",
    "tf32": False,
}
# What certificates of rnn model before there were others; it means the same.
BEFORE = {"unit": U32, "tanh_error": CURVE32, "format": "float32"}

COUNT, SIZE = "a whole number from 1 on", "a number from 0 on"
STACK: dict[str, list[Any]] = {
    "name": ["bare"],
    "norm": [True],
    "hidden": [0],
    "embed": ["embedding", "one_hot"],
}
CELL: dict[str, list[Any]] = {"units": [None, COUNT], "noise": [SIZE]}
STARTS = ["random", "exact"]  # of weights: which says nothing of what became of them
MIXERS: dict[str, dict[str, list[Any]]] = {
    "rnn": {**CELL, "nonlinearity": ["tanh"], "init": STARTS},
    "elman": CELL,
    "gru": CELL,
    "lstm": {**CELL, "forget_bias": [None, "a number"]},
    "blockdiag": {
        "block_size": [COUNT],
        "blocks": [None, COUNT],
        "p": ["a number"],
        "constraint": ["none", "column_clip", "column_unit"],
        "g": ["linear", "mlp"],
        "values": ["linear", "mlp"],
        "hidden": [COUNT],
        "learn_x0": [True, False],
        "init": STARTS,
    },
}
LATER = {"noise", "init"}  # settings that certificates before them do not tell


def network(model: Any, w: dict[str, Array]) -> dict[str, Any]:
    """Return kind, vectors of symbols, layers, start, out and head of the model that is named.

    model: the certificate's settings under model. w: its weights. Raises Refused.
    """
    kind, count = _known_model(model)
    for name, value in w.items():  # numpy would stretch a bias of other axes over symbols
        flat = "bias" in name.rpartition(".")[2] or name == "norm.weight"
        need(value.ndim == (1 if flat else 2), f"{name[:60]} of {value.ndim} axes")
    need(all(v.dtype == np.float32 for v in w.values()), "weights must be float32")
    need(all(np.isfinite(v).all() for v in w.values()), "a weight that is not finite")
    left = {name: value.astype(np.float64) for name, value in w.items()}
    for name, value in left.items():
        small = value.size == 0 or np.abs(value).max() <= LARGEST_WEIGHT
        good = bool(small) and max(value.shape, default=0) <= MOST_UNITS
        need(good, f"{name[:60]} is too large")
    need(1 <= count <= len(w), "a number of layers that is none")
    # what is used is taken out of `left`, and nothing may be left
    scale, shift = left.pop("norm.weight"), left.pop("norm.bias")
    weight, bias = left.pop("head.0.weight"), left.pop("head.0.bias")
    table = left.pop("embedding.weight") if model["backbone"]["embed"] == "embedding" else None
    fits = table is None or table.shape[1] == model["width"]
    need(fits, "an embedding of another width than the model's")
    mixer = model["mixer"]
    if kind == "blockdiag":
        net = _blocks(mixer, left, table)
    else:
        net = _cells(kind, count, mixer["units"], left, table)
    need(not left and (kind != "blockdiag" or count == 1), "weights of another model")
    n = net["width"]
    need(n <= MOST_OUTPUTS, f"more than {MOST_OUTPUTS:,} outputs")
    good = scale.shape == shift.shape == (n,) and weight.shape == (len(bias), n)
    need(good and len(bias) >= 2, "a head that does not fit")
    return {**net, "kind": kind, "head": (scale, shift, weight, bias, 1e-5)}


def _known_model(model: Any) -> tuple[str, int]:
    """Return kind and number of layers of settings that are all known, and can be."""
    kind, mixer, stack = model.get("name"), model.get("mixer"), model.get("backbone")
    known = kind in MIXERS and isinstance(mixer, dict) and isinstance(stack, dict)
    need(known, "a model that this checker does not know")
    check_known("the model", model, {"name", "width", "layers", "backbone", "mixer"})
    for where, settings, allowed in (("backbone", stack, STACK), ("mixer", mixer, MIXERS[kind])):
        check_known(f"the model's {where}", settings, set(allowed))
        for key, values in allowed.items():
            there = key in settings or key in LATER
            need(there, f"a model that this checker does not know: no {where}.{key}")
            good = key not in settings or any(_fits(settings[key], one) for one in values)
            need(good, f"a model that this checker does not know: {where}.{key}")
    need(_fits(model.get("width"), COUNT), "a width that is none")
    need(_fits(model.get("layers"), COUNT), "a number of layers that is none")
    return kind, model["layers"]


def _fits(value: Any, allowed: Any) -> bool:
    if allowed == COUNT:
        return type(value) is int and value >= 1
    if allowed in (SIZE, "a number"):
        return type(value) in (int, float) and (value >= 0 or allowed == "a number")
    return type(value) is type(allowed) and value == allowed


def _cells(
    kind: str, count: int, units: int | None, left: dict[str, Array], table: Array | None
) -> dict[str, Any]:
    layers, gates, size = [], {"gru": 3, "lstm": 4}.get(kind, 1), 0
    below = -1 if table is None else table.shape[1]
    for i in range(count):
        if kind == "elman":
            names = ("input.weight", "matrix", "input.bias")
            w, u, b = (left.pop(f"mixers.{i}.{name}") for name in names)
            c = np.zeros_like(b)
        else:
            parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
            w, u, b, c = (left.pop(f"mixers.{i}.network.{part}") for part in parts)
        n = u.shape[-1]
        below = w.shape[-1] if below == -1 else below
        need(n == (units or below), "another number of units than the model's")
        good = w.shape == (gates * n, below) and u.shape == (gates * n, n)
        need(good and b.shape == c.shape == (gates * n,), "weights that do not fit each other")
        layers.append((w, u, b, c))
        below, size = n, size + n * (2 if kind == "lstm" else 1)
    table = _one_hot(layers[0][0].shape[1]) if table is None else table
    return {"table": table, "layers": layers, "start": np.zeros(size), "width": n, "out": None}


def _blocks(mixer: Any, left: dict[str, Array], table: Array | None) -> dict[str, Any]:
    """Return the matrices A_s that symbols make, if they are of whole numbers, as `layers`."""
    maps = {}
    for name, setting in (("transition", "g"), ("value", "values")):
        places = [0, 2] if mixer[setting] == "mlp" else [0]
        named = [f"mixers.0.{name}.{place}" for place in places]
        maps[name] = [(left.pop(f"{one}.weight"), left.pop(f"{one}.bias")) for one in named]
        hidden = mixer[setting] == "linear" or len(maps[name][0][0]) == mixer["hidden"]
        need(hidden, f"another number of hidden units of mixers.0.{name} than the model's")
    table = _one_hot(maps["transition"][0][0].shape[1]) if table is None else table
    start = left.pop("mixers.0.start")
    blocks, b = start.shape
    below = table.shape[1]
    good = b == mixer["block_size"] and blocks == (mixer["blocks"] or below // b)
    need(good, "other blocks than the model's")
    known = mixer["constraint"] == "none" or 1 <= mixer["p"] <= LARGEST_P
    need(known, f"a norm of columns that float32 might not know: p must be 1 to {LARGEST_P:g}")
    need(not _without_rounding(maps["value"], table).any(), "a recurrence that writes its state")
    made = _without_rounding(maps["transition"], table).reshape(len(table), blocks, b, b)
    need(bool((np.abs(made).sum(2) <= 1).all()), "columns of more than one entry 1 or -1")
    size = blocks * b
    net = {"table": table, "layers": made, "start": start.reshape(-1)}
    if size == below:
        return {**net, "width": size, "out": None}
    out = left.pop("mixers.0.out.weight"), left.pop("mixers.0.out.bias")
    good = out[0].shape == (len(out[1]), size) and len(out[1]) == below
    need(good, "weights that do not fit each other")
    return {**net, "width": len(out[1]), "out": out}


def _one_hot(symbols: int) -> Array:
    need(symbols <= MOST_SYMBOLS, "too many symbols for this checker")
    return np.eye(symbols)


def _without_rounding(layers: Any, u: Array) -> Array:
    """Return W relu(.. u ..) + b, where all numbers are whole and small enough for exact sums."""
    for k, (w, b) in enumerate(layers):
        u = np.maximum(u, 0) if k else u
        need(w.shape == (len(b), u.shape[1]), "weights that do not fit each other")
        need(len(u) * len(b) <= MOST_BYTES // 8, "too many matrices for this checker")
        sizes = np.abs(u) @ np.abs(w).T + np.abs(b)
        need(exact(sizes, u, w, b), "matrices that float32 might round: numbers that are not whole")
        u = u @ w.T + b
    return u
