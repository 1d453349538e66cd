"""The proof of a tanh network, checked in one file: numpy alone, to be read in ten minutes.

    python tanh_check.py certificates/last.json

It checks `rnn` and `elman` on sum, parity and even_pair; the folder check/ knows all cells and
tasks. It shares no line with that folder or with the search, so that a reviewer can believe one.

    state      h, the outputs of all layers one after the other; zero before the first symbol
    layer      h' = tanh(W u + b + U h + c), u the output of the layer below, or a symbol's vector
    logits     H (scale (h' - mean) / sqrt(variance + eps) + shift) + d, of the last layer
    proof      boxes lo, hi (V, D); next (V, S), the node that follows a node by a symbol

What follows from the four steps marked PROVED, by induction on the length: after any string the
state that float32 computes lies in the box of the node that the string leads to, and the right
answer's logit is the largest there. Assumed: tanh within 8 units of 2^-24, no TF32.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

U = 2.0**-24  # float32 rounds by this part of a number
MORE = 1.001  # for second order terms, and the rounding of this file's own float64 (2^-53)
TINY = 1e-20  # what products below float32's range, flushed to zero, can add up to
EPS = 1e-5  # of LayerNorm


def need(holds: Any, otherwise: str) -> None:
    """Stop unless it holds: the file proves nothing."""
    if not holds:
        raise ValueError(otherwise)


def automaton(task: dict[str, Any]) -> tuple[list[list[int]], list[int | None]]:
    """Return the next state by state and symbol, from state 0 on, and the answer in each state."""
    m = task["settings"]["modulus"]
    need(task["version"] == 1 and set(task["settings"]) == {"modulus"}, "another version")
    need(type(m) is int and 2 <= m <= 1000, "a modulus that is none")
    if task["name"] in ("sum", "parity"):  # the sum modulo m
        need(task["name"] == "sum" or m == 2, "parity is modulo 2")
        return [[(q + s) % m for s in range(m)] for q in range(m)], list(range(m))
    need(task["name"] == "even_pair", "another task")  # is the last symbol the first one?
    states = [(first, last) for first in range(m) for last in range(m)]
    number = {state: 1 + place for place, state in enumerate(states)}
    edges = [[number[first, s] for s in range(m)] for first, _ in states]
    return (
        [[number[s, s] for s in range(m)], *edges],
        [None, *(int(first == last) for first, last in states)],
    )


def image(net: dict[str, Any], symbol: int, lo: Any, hi: Any) -> tuple[Any, Any]:
    """Return boxes around what float32 makes of all states of boxes (N, D) by a symbol."""
    below = (net["symbols"][symbol][None],) * 2
    found, at = [], 0
    for w, u, b, c in net["layers"]:
        mine = lo[:, at : at + len(u)], hi[:, at : at + len(u)]
        middle, radius, size = b + c, 0.0, np.abs(b) + np.abs(c)
        for matrix, (low, high) in ((w, below), (u, mine)):
            centre, half = (low + high) / 2, (high - low) / 2
            middle = middle + centre @ matrix.T
            radius = radius + half @ np.abs(matrix).T
            size = size + (np.abs(centre) + half) @ np.abs(matrix).T
        # any order of adding n products errs by n U times the sum of their sizes
        n = 2 * (w.shape[1] + u.shape[1]) + 8
        radius = radius + MORE * n * U * size + TINY
        below = np.tanh(middle - radius) - MORE * 8 * U, np.tanh(middle + radius) + MORE * 8 * U
        found.append(below)
        at += len(u)
    return np.concatenate([a for a, _ in found], 1), np.concatenate([b for _, b in found], 1)


def lead(net: dict[str, Any], right: int, lo: Any, hi: Any) -> float:
    """Return by how much the right logit leads the others, at least, on boxes (N, n) of h'.

    With s = sqrt(variance + eps), s times (a logit minus another) = v . h' + k s is linear in h',
    and s lies between bounds of its own.
    """
    (scale, shift), (head, bias) = net["norm"], net["head"]
    n, centre, half = len(scale), (lo + hi) / 2, (hi - lo) / 2
    most = (np.abs(centre) + half).max(1)
    apart = np.abs(centre - centre.mean(1, keepdims=True))  # of each number from the mean
    reach = half * (1 - 2 / n) + half.mean(1, keepdims=True) + 1e-12 * most[:, None]
    s_lo = np.sqrt((np.maximum(apart - reach, 0) ** 2).mean(1) + EPS) / (1 + 1e-9)
    s_hi = np.sqrt(((apart + reach) ** 2).mean(1) + EPS) * (1 + 1e-9)
    # float32: the variance in one pass or two, its root, the division, the scale, the sums
    variance = MORE * (8 * n + 32) * U * most**2 + TINY
    need((2 * variance < s_lo**2).all(), "a variance that may be rounding")
    part = variance / (s_lo**2 - variance) + 8 * U
    largest = 2 * most / s_lo * (1 + part)  # of a number after LayerNorm, before its scale
    wrong = largest * (part + MORE * (n + 16) * U)  # and by how much float32 errs in it
    least = np.inf
    for other in set(range(len(head))) - {right}:
        d = head[right] - head[other]
        v = d * scale - (d * scale).mean()
        k = d @ shift + bias[right] - bias[other]
        linear = centre @ v - half @ np.abs(v)
        sizes = np.abs(d) @ np.abs(shift) + abs(bias[right]) + abs(bias[other])
        slack = 1e-9 * (np.abs(d * scale).sum() * most + sizes * s_hi)  # of this file's float64
        ahead = linear + np.minimum(k * s_lo, k * s_hi) - slack
        ahead = ahead / np.where(ahead > 0, s_hi, s_lo)
        for row in (right, other):
            gain = np.abs(head[row]) @ np.abs(scale)
            rest = np.abs(head[row]) @ np.abs(shift) + abs(bias[row])
            rounded = gain * wrong + (n + 8) * U * (gain * largest + rest)
            ahead = ahead - 1.01 * rounded
        least = min(least, float((ahead - TINY).min()))
    return least


def network(model: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    """Return symbols' vectors, layers, norm and head; settings of other sums are refused."""
    stack, mixer, left = model["backbone"], model["mixer"], dict(weights)
    need(set(model) == {"name", "width", "layers", "backbone", "mixer"}, "another setting")
    need(model["name"] in ("rnn", "elman"), "another model")
    need(mixer.get("nonlinearity", "tanh") == "tanh", "another curve than tanh")
    known = {"units", "noise"} | ({"nonlinearity", "init"} if model["name"] == "rnn" else set())
    need(set(mixer) <= known, "another setting of the mixer")
    plain = {"name": "bare", "norm": True, "hidden": 0, "embed": stack["embed"]}
    need(stack == plain, "another stack")
    for name, one in left.items():
        good = one.dtype == np.float32 and one.size and np.isfinite(one).all()
        need(good and np.abs(one).max() <= 1e6 and max(one.shape) <= 2000, f"{name}: of no use")
        flat = name == "norm.weight" or name.endswith("bias") or "bias_" in name
        need(one.ndim == (1 if flat else 2), f"{name}: of another shape")
    left = {name: one.astype(float) for name, one in left.items()}
    layers: list[tuple[Any, Any, Any, Any]] = []
    for i in range(model["layers"]):
        at = f"mixers.{i}."
        if model["name"] == "elman":
            w, u, b = (left.pop(at + part) for part in ("input.weight", "matrix", "input.bias"))
            c = np.zeros_like(b)
        else:
            parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
            w, u, b, c = (left.pop(f"{at}network.{part}") for part in parts)
        units = mixer["units"] or (layers[-1][1].shape[0] if layers else w.shape[1])
        need(u.shape == (units, units) and b.shape == c.shape == (units,), "other units")
        below = len(layers[-1][1]) if layers else w.shape[1]
        need(w.shape == (units, below), "other units")
        layers.append((w, u, b, c))
    need(layers, "no layers")
    if stack["embed"] == "embedding":
        symbols = left.pop("embedding.weight")
        need(symbols.shape[1] == model["width"], "symbols of another width")
    else:
        need(stack["embed"] == "one_hot", "symbols of another kind")
        symbols = np.eye(layers[0][0].shape[1])
    need(symbols.shape[1] == layers[0][0].shape[1], "symbols of another width")
    norm = left.pop("norm.weight"), left.pop("norm.bias")
    head = left.pop("head.0.weight"), left.pop("head.0.bias")
    n = len(layers[-1][1])
    need(norm[0].shape == norm[1].shape == (n,) == head[0].shape[1:], "a head that does not fit")
    need(head[1].shape == head[0].shape[:1] and not left, "weights of another model")
    return {"symbols": symbols, "layers": layers, "norm": norm, "head": head}


def check(file: Path) -> str:
    """Return what is proved, in a line. Raises an exception for a file that proves nothing."""
    claim = json.loads(file.read_text())
    path = file.with_name(claim["arrays"]["file"])
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    need(sha == claim["arrays"]["sha256"], "the arrays are not those of the digest")
    need((claim["format"], claim["version"]) == ("lrbench-certificate", 1), "another format")
    need(claim["verdict"] == "certified" and claim["dtype"] == "float32", "it proves nothing")
    need(claim.get("witness") is None, "a string that is wrong beside a proof")
    assumed = claim["arithmetic"]
    need(assumed["unit"] == U and assumed["tanh_error"] == 8 * U, "another arithmetic")
    need(assumed["format"] == "float32" and not assumed.get("tf32"), "another arithmetic")
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    weights = {name[2:]: one for name, one in arrays.items() if name.startswith("w/")}
    need(digest(weights) == claim["weights_sha256"], "the weights are not those of the digest")
    net, (edges, answers) = network(claim["model"], weights), automaton(claim["task"])
    lo, hi, following = arrays["lo"], arrays["hi"], arrays["next"]
    states, symbols = sum(len(u) for _, u, _, _ in net["layers"]), len(edges[0])
    need(lo.shape == hi.shape == (len(following), states), "boxes of another shape")
    need(lo.dtype == hi.dtype == np.float64 and following.dtype == np.int32, "another type")
    need((lo >= -2).all() and (lo <= hi).all() and (hi <= 2).all(), "boxes beyond what tanh makes")
    need(following.shape[1] == len(net["symbols"]) == symbols, "another number of symbols")
    need(len(net["head"][1]) == 1 + max(a for a in answers if a is not None), "other classes")

    # PROVED: the start lies in the box of node 0
    need((lo[0] <= 0).all() and (hi[0] >= 0).all(), "the start lies outside its box")
    # PROVED: each node is at one state of the task, however a string leads to it
    label, waiting = {0: 0}, [0]  # of each node that a string leads to: the state of the task
    while waiting:
        node = waiting.pop()
        for symbol, state in enumerate(edges[label[node]]):
            to = int(following[node, symbol])
            need(0 <= to < len(lo), "a successor that is no node")
            if to not in label:
                label[to] = state
                waiting.append(to)
            need(label[to] == state, "two states of the task at one node")
    met = np.array(sorted(label))
    entered = sorted({int(to) for to in following[met].flat})
    # PROVED: a step of float32 leads from every box into the next one
    for symbol in range(symbols):
        low, high = image(net, symbol, lo[met], hi[met])
        to = following[met, symbol]
        need((lo[to] <= low).all() and (high <= hi[to]).all(), "an image leaves its box")
    # PROVED: wherever a string ends, the right answer's logit is the largest
    least, last = np.inf, -len(net["norm"][0])
    for answer in {answers[label[node]] for node in entered}:
        there = [node for node in entered if answers[label[node]] == answer]
        assert answer is not None  # of these tasks the empty string alone is asked nothing
        least = min(least, lead(net, answer, lo[there][:, last:], hi[there][:, last:]))
    need(0 < least < np.inf, "the right answer does not lead")
    name, task = claim["model"]["name"], claim["task"]
    return f"{len(lo):,} boxes prove {name} right on every string of {task}, by {least:.3g}"


def digest(weights: dict[str, Any]) -> str:
    """Return the sha256 of names, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(weights):
        one = np.ascontiguousarray(weights[name])
        found.update(json.dumps([name, list(one.shape), str(one.dtype)]).encode())
        found.update(one.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    try:
        print(check(Path(sys.argv[1])))
    except Exception as why:  # of any kind: a file that cannot be followed proves nothing
        sys.exit(f"refused: {type(why).__name__}: {why}")
