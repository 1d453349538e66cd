"""The proof of a tanh network, checked in one file: numpy alone, to be read at one sitting.

    python tanh_check.py certificates/last.json

It checks `rnn` and `elman` on sum, parity and even_pair; the folder check/ knows all cells and
tasks. It imports nothing of that folder or of the search, so that a reviewer can believe one file.

    state      h, the outputs of all layers one after the other; zero before the first symbol
    layer      h' = tanh(W x + b + R h + c), x the output of the layer below, or a symbol's vector
    logits     H (scale (h' - mean) / sqrt(variance + eps) + shift) + d, of the last layer
    proof      boxes lo, hi (V, D); next (V, S), the node that follows a node by a symbol

What follows from the four steps marked PROVED, by induction on the length: after any string the
state that float32 computes lies in the box of the node that the string leads to, and there the
right answer's logit is the largest. Assumed: float32 that rounds each operation, in any order of a
sum; tanh within 8 units of 2^-24; the root of LayerNorm within a few units. Numbers below float32's
range may be flushed to zero. Nothing follows for bfloat16, TF32 or quantised weights.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

UNIT = 2.0**-24  # the relative error of a rounding of float32
MORE = 1.001  # for second order terms, and for this file's own float64 (2^-53), numpy's tanh too
TINY = 1e-20  # what products below float32's range, flushed to zero, can add up to
EPS = 1e-5  # of LayerNorm
# So that float32 cannot overflow, and that n roundings err by n UNIT MORE (n below 16,000).
LARGEST_WEIGHT, MOST_UNITS, LARGEST_STATE = 1e6, 2000, 2.0
ARITHMETIC = {"unit": UNIT, "tanh_error": 8 * UNIT, "format": "float32"}
ALSO = {"logistic_error": 8 * UNIT, "tf32": False}  # of newer files


def need(holds: Any, otherwise: str) -> None:
    """Stop unless it holds: the file proves nothing."""
    if not holds:
        raise ValueError(otherwise)


def automaton(task: dict[str, Any]) -> tuple[list[list[int]], list[int | None]]:
    """Return the next state by state and symbol, from state 0 on, and the answer in each state."""
    need(set(task) == {"name", "settings", "version"} and task["version"] == 1, "another task")
    need(set(task["settings"]) == {"modulus"}, "other settings of the task")
    m = task["settings"]["modulus"]
    need(type(m) is int and 2 <= m <= 1000, f"modulus {m!r}")
    if task["name"] in ("sum", "parity"):  # the sum modulo m
        need(task["name"] == "sum" or m == 2, f"parity modulo {m}")
        return [[(q + s) % m for s in range(m)] for q in range(m)], list(range(m))
    need(task["name"] == "even_pair", f"task {task['name']!r}")  # is the last symbol the first one?
    states = [(first, last) for first in range(m) for last in range(m)]
    number = {state: 1 + place for place, state in enumerate(states)}
    edges = [[number[first, s] for s in range(m)] for first, _ in states]
    return (
        [[number[s, s] for s in range(m)], *edges],
        [None, *(int(first == last) for first, last in states)],
    )


def image(net: dict[str, Any], symbol: int, lo: Any, hi: Any) -> tuple[Any, Any]:
    """Return boxes around what float32 makes of all states of boxes (N, D) by a symbol."""
    vector = net["symbols"][symbol][None]
    x = vector, vector  # a box that is a point
    found, at = [], 0
    for w, r, b, c in net["layers"]:
        h = lo[:, at : at + len(r)], hi[:, at : at + len(r)]
        middle, radius, size = b + c, 0.0, np.abs(b) + np.abs(c)
        for matrix, (low, high) in ((w, x), (r, h)):
            centre, half = (low + high) / 2, (high - low) / 2
            middle = middle + centre @ matrix.T
            radius = radius + half @ np.abs(matrix).T
            size = size + (np.abs(centre) + half) @ np.abs(matrix).T
        # each product and each sum rounds once, at most by the sum of all sizes
        roundings = 2 * (w.shape[1] + r.shape[1]) + 8
        radius = radius + MORE * roundings * UNIT * size + TINY
        curve = MORE * 8 * UNIT
        x = np.tanh(middle - radius) - curve, np.tanh(middle + radius) + curve
        found.append(x)
        at += len(r)
    return np.concatenate([a for a, _ in found], 1), np.concatenate([b for _, b in found], 1)


def lead(net: dict[str, Any], right: int, lo: Any, hi: Any) -> float:
    """Return by how much the right logit leads the others, at least, on boxes (N, n) of h'.

    With s = sqrt(variance + eps), s times (a logit minus another) = v . h' + k s is linear in h',
    and s lies between bounds of its own. 1e-9 and 1e-12 stand for this file's own rounding: sums
    of n numbers in float64 err by n 2^-53 < 3e-13 of their sizes.
    """
    (scale, shift), (head, bias) = net["norm"], net["head"]
    n, centre, half = len(scale), (lo + hi) / 2, (hi - lo) / 2
    largest_h = (np.abs(centre) + half).max(1)
    # |h_i - mean| is |c_i - mean c|, and more or less by (1 - 1/n) half_i + sum of the others' / n
    deviation = np.abs(centre - centre.mean(1, keepdims=True))
    spread = half * (1 - 2 / n) + half.mean(1, keepdims=True) + 1e-12 * largest_h[:, None]
    s_lo = np.sqrt((np.maximum(deviation - spread, 0) ** 2).mean(1) + EPS) / (1 + 1e-9)
    s_hi = np.sqrt(((deviation + spread) ** 2).mean(1) + EPS) * (1 + 1e-9)
    # A variance takes about 3n + 5 roundings, in one pass or two, the rest of LayerNorm n + 4, the
    # head n + 4. Twice as many and more are counted.
    variance_error = MORE * (8 * n + 32) * UNIT * largest_h**2 + TINY
    need((2 * variance_error < s_lo**2).all(), "a variance that may be rounding")
    relative = variance_error / (s_lo**2 - variance_error) + 8 * UNIT
    largest = 2 * largest_h / s_lo * (1 + relative)  # |h - mean| / s; |h - mean| <= 2 |h|
    norm_error = largest * (relative + MORE * (n + 16) * UNIT)
    least = np.inf
    for other in set(range(len(head))) - {right}:
        d = head[right] - head[other]
        v = d * scale - (d * scale).mean()
        k = d @ shift + bias[right] - bias[other]
        linear = centre @ v - half @ np.abs(v)
        sizes = np.abs(d) @ np.abs(shift) + abs(bias[right]) + abs(bias[other])
        slack = 1e-9 * (np.abs(d * scale).sum() * largest_h + sizes * s_hi)
        margin = linear + np.minimum(k * s_lo, k * s_hi) - slack
        margin = margin / np.where(margin > 0, s_hi, s_lo)
        for row in (right, other):
            gain = np.abs(head[row]) @ np.abs(scale)
            offset = np.abs(head[row]) @ np.abs(shift) + abs(bias[row])
            rounding = gain * norm_error + (n + 8) * UNIT * (gain * largest + offset)
            margin = margin - 1.01 * rounding
        least = np.minimum(least, (margin - TINY).min())  # of nan it is nan
    return float(least)


def network(model: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    """Return symbols' vectors, layers, norm and head; settings of other sums are refused."""
    stack, mixer, left = model["backbone"], model["mixer"], dict(weights)
    need(set(model) == {"name", "width", "layers", "backbone", "mixer"}, "other settings")
    need(model["name"] in ("rnn", "elman"), f"model {model['name']!r}")
    need(type(model["layers"]) is int and model["layers"] >= 1, f"{model['layers']!r} layers")
    need(type(model["width"]) is int and model["width"] >= 1, f"a width of {model['width']!r}")
    known = {"units", "noise"}  # noise is of training alone
    if model["name"] == "rnn":
        known |= {"nonlinearity", "init"}  # init is where the weights began
        need(mixer["nonlinearity"] == "tanh", f"the curve {mixer['nonlinearity']!r}")
    need(set(mixer) <= known, "other settings of the mixer")
    plain = {"name": "bare", "norm": True, "hidden": 0, "embed": stack["embed"]}
    need(stack == plain, "another stack")
    for name, one in left.items():
        vector = name == "norm.weight" or "bias" in name.rpartition(".")[2]
        need(one.ndim == (1 if vector else 2), f"{name!r} has {one.ndim} axes")
        need(one.dtype == np.float32 and np.isfinite(one).all(), f"{name!r}: no float32 numbers")
        small = one.size and np.abs(one).max() <= LARGEST_WEIGHT and max(one.shape) <= MOST_UNITS
        need(small, f"{name!r} is empty or too large")
    left = {name: one.astype(float) for name, one in left.items()}
    layers: list[tuple[Any, Any, Any, Any]] = []
    for i in range(model["layers"]):
        at = f"mixers.{i}."
        if model["name"] == "elman":
            w, r, b = (left.pop(at + part) for part in ("input.weight", "matrix", "input.bias"))
            c = np.zeros_like(b)
        else:
            w, r = (left.pop(f"{at}network.weight_{part}_l0") for part in ("ih", "hh"))
            b, c = (left.pop(f"{at}network.bias_{part}_l0") for part in ("ih", "hh"))
        below = len(layers[-1][1]) if layers else w.shape[1]
        units = mixer["units"] or below
        need(w.shape == (units, below) and r.shape == (units, units), f"layer {i}: other units")
        need(b.shape == c.shape == (units,), f"layer {i}: other units")
        layers.append((w, r, b, c))
    size = layers[0][0].shape[1]
    if stack["embed"] == "embedding":
        symbols = left.pop("embedding.weight")
        need(symbols.shape[1] == model["width"] == size, "symbols of another width")
    else:
        need(stack["embed"] == "one_hot", f"symbols by {stack['embed']!r}")
        symbols = np.eye(size)
    norm = left.pop("norm.weight"), left.pop("norm.bias")
    head = left.pop("head.0.weight"), left.pop("head.0.bias")
    n = len(layers[-1][1])
    need(norm[0].shape == (n,) and norm[1].shape == (n,), "a norm that does not fit")
    need(head[0].shape == (len(head[1]), n), "a head that does not fit")
    need(not left, "weights of another model")
    return {"symbols": symbols, "layers": layers, "norm": norm, "head": head}


def check(file: Path) -> str:
    """Return what is proved. Raises an exception, of whatever kind, where nothing is."""
    claim = json.loads(file.read_text())
    need((claim["format"], claim["version"]) == ("lrbench-certificate", 1), "another format")
    need(claim["verdict"] == "certified" and claim["dtype"] == "float32", "it claims no proof")
    content = file.with_name(claim["arrays"]["file"]).read_bytes()
    signed = hashlib.sha256(content).hexdigest() == claim["arrays"]["sha256"]
    need(signed, "the arrays are not those of the digest")
    need(claim.get("witness") is None, "a string that is wrong beside a proof")
    need(claim["arithmetic"] in (ARITHMETIC, ARITHMETIC | ALSO), "another arithmetic")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    weights = {name[2:]: one for name, one in arrays.items() if name.startswith("w/")}
    need(digest(weights) == claim["weights_sha256"], "the weights are not those of the digest")
    net, (edges, answers) = network(claim["model"], weights), automaton(claim["task"])
    lo, hi, following = arrays["lo"], arrays["hi"], arrays["next"]
    states, symbols = sum(len(r) for _, r, _, _ in net["layers"]), len(edges[0])
    need(lo.dtype == hi.dtype == np.float64 and following.dtype == np.int32, "another type")
    need(following.ndim == 2 and lo.shape == hi.shape == (len(following), states), "another shape")
    need((np.abs([lo, hi]) <= LARGEST_STATE).all() and (lo <= hi).all(), "boxes that are none")
    need(following.shape[1] == len(net["symbols"]) == symbols, "another number of symbols")
    need(len(net["head"][1]) == 1 + max(a for a in answers if a is not None), "other classes")

    # PROVED: the start lies in the box of node 0
    need((lo[0] <= 0).all() and (hi[0] >= 0).all(), "the start lies outside its box")
    # PROVED: each node is at one state of the task, however a string leads to it
    label, waiting = {0: 0}, [0]
    while waiting:
        node = waiting.pop()
        for symbol, state in enumerate(edges[label[node]]):
            to = int(following[node, symbol])
            need(0 <= to < len(lo), "a successor that is no node")
            if to not in label:
                label[to] = state
                waiting.append(to)
            need(label[to] == state, "two states of the task at one node")
    need(len(label) == len(lo), "nodes that no string leads to")
    # PROVED: a step of float32 leads from every box into the next one
    for symbol in range(symbols):
        low, high = image(net, symbol, lo, hi)
        to = following[:, symbol]
        need((lo[to] <= low).all() and (high <= hi[to]).all(), "an image leaves its box")
    # PROVED: wherever a string of one symbol or more ends, the right answer's logit is the largest
    least, n = np.inf, len(net["norm"][0])
    entered = sorted(set(following.flat))
    for answer in {answers[label[node]] for node in entered}:
        if answer is None:
            raise ValueError("nothing is asked where a string ends")
        there = [node for node in entered if answers[label[node]] == answer]
        least = np.minimum(least, lead(net, answer, lo[there][:, -n:], hi[there][:, -n:]))
    need(0 < least < np.inf, "the right answer does not lead")
    task, model = json.dumps(claim["task"]), json.dumps(claim["model"])
    return (
        f"{len(lo):,} boxes prove, in float32, the right answer to every string of\n  {task}\n"
        f"by at least {np.floor(least * 1000) / 1000:g} between logits, of\n  {model}\n"
        f"with the weights of sha256 {claim['weights_sha256']}"
    )


def digest(weights: dict[str, Any]) -> str:
    """Return the sha256 of names, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(weights):
        one = np.ascontiguousarray(weights[name])
        found.update(json.dumps([name, list(one.shape), str(one.dtype)]).encode())
        found.update(one.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tanh_check.py certificates/last.json")
    try:
        print(check(Path(sys.argv[1])))
    except Exception as why:  # of any kind: a file that cannot be followed proves nothing
        sys.exit(f"refused: {type(why).__name__}: {str(why)!r:.300}")
