"""The checker of certificates: whether a file proves a network right on every string of a task.

It needs numpy and nothing else of lrbench: `python check.py certificates/last.json`. It was written
apart from the search that makes such files, and believes nothing of them but three arrays: boxes
lo and hi (V, D), one for each node, and next (V, S), the node that follows each by each symbol.

The network is a stack of layers, read by LayerNorm and a linear map. Each layer reads u, the new
output of the layer below it, the first one a vector of the symbol:

    rnn, elman  h' = tanh(W u + b + U h + c)                       (elman has no c)
    gru         r, z = logistic(W u + b + U h + c), by rows;  n = tanh(W u + b + r (U h + c))
                h' = n + z (h - n)
    lstm        i, f, o = logistic(..), g = tanh(..);  c' = f c + i g;  h' = o tanh(c')
    blockdiag   h' = A_s h, one layer: each column of A_s is zero but for one entry 1 or -1, so that
                states of whole numbers are moved about without rounding; their boxes are points
    logits = H (gamma (h' - mean) / sqrt(variance + eps) + beta) + d

The proof, by induction on length: the start lies in the box of node 0; from every box each symbol
leads into the box of the next node; nodes walk along with the task's machine; and on all of a
node's box the right answer's logit is the largest. All of it is about what float32 computes, in
any order of summation: each image is widened by a bound on its rounding. The checker's own float64
is widened likewise.

Assumed: tanh and logistic within 8 units of 2^-24 (4 ulp), no TF32, subnormals kept or flushed; of
blockdiag, that a column of norm one is divided by one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

U32, U64 = 2.0**-24, 2.0**-53
CURVE32, CURVE64 = 8 * U32, 1e-15  # absolute errors of tanh and logistic, in float32 and here
# What flushed subnormals may add up to: 2^-126 a product, times its partner, times how many.
UNDERFLOW, TINY = 1e-20, 1e-300
MOST_BYTES, MOST_NODES, MOST_SYMBOLS = 1 << 28, 1_000_000, 1003
# Beyond these float32 might overflow, and the bounds below say nothing of infinity.
LARGEST_WEIGHT, LARGEST_STATE, MOST_UNITS = 1e6, 1e4, 100_000
LARGEST_P = 1e6  # of a norm of columns: one that float32 takes for infinite makes no number
ARITHMETIC = {
    "unit": U32,
    "tanh_error": CURVE32,
    "logistic_error": CURVE32,
    "format": "float32",
    "tf32": False,
}
# What certificates of rnn told before there were others; it means the same.
BEFORE = {"unit": U32, "tanh_error": CURVE32, "format": "float32"}

Array = Any  # of numpy
Box = tuple[Any, Any]  # lo, hi


class Refused(Exception):
    """The file proves nothing, and why."""


def check(file: Path) -> dict[str, float]:
    """Return the nodes reached and the least margin of a proof that holds; Refused otherwise."""
    try:
        claim, arrays = _read(file)
        with np.errstate(all="ignore"):  # what overflows becomes inf or nan, and is refused
            return _checked(claim, arrays)
    except Refused:
        raise
    except Exception as error:  # bytes from anywhere can make a parser raise anything at all
        raise Refused(f"parts of another kind than a certificate's: {error!r:.200}") from error


def _checked(claim: Any, arrays: dict[str, Array]) -> dict[str, float]:
    weights = {k.removeprefix("w/"): v for k, v in arrays.items() if k.startswith("w/")}
    _need(digest(weights) == claim.get("weights_sha256"), "the weights are not those of the digest")
    for name, value in weights.items():  # numpy would stretch a bias of other axes over symbols
        flat = "bias" in name.rpartition(".")[2] or name == "norm.weight"
        _need(value.ndim == (1 if flat else 2), f"{name[:60]} of {value.ndim} axes")
    net = network(claim, weights)
    _need({"lo", "hi", "next"} <= set(arrays), "lo, hi and next must be there")
    lo, hi, following = arrays["lo"], arrays["hi"], arrays["next"]
    size = len(net["start"])
    _need(lo.ndim == 2 and lo.shape == hi.shape == (len(lo), size), "boxes of another size")
    _need(lo.dtype == hi.dtype == np.float64, "boxes must be float64")
    _need(bool(np.isfinite(lo).all() and np.isfinite(hi).all()), "a side that is not finite")
    _need(bool((lo <= hi).all()), "a box with lo above hi")
    inside = (lo >= -LARGEST_STATE).all() and (hi <= LARGEST_STATE).all()
    _need(bool(inside), f"a box beyond {LARGEST_STATE:g}, where float32 might overflow")
    _need(0 < len(lo) <= MOST_NODES, "too many nodes, or none")
    _need(following.ndim == 2 and following.shape[1] <= MOST_SYMBOLS, "successors of another shape")
    start, delta, answers = machine(claim["task"], following.shape[1])
    _need(following.shape == (len(lo), len(delta[0])), "successors of another shape")
    _need(following.dtype == np.int32, "successors must be int32")
    _need(len(net["table"]) == len(delta[0]), "another number of symbols than the task has")
    classes = 1 + max(a for a in answers if a is not None)
    _need(len(net["head"][2]) == classes, "another number of classes than the task has")
    labels = _labels(following, start, delta)
    begins = (lo[0] <= net["start"]).all() and (net["start"] <= hi[0]).all()
    _need(bool(begins), "the start lies outside its box")

    reached, entered = np.nonzero(labels >= 0)[0], np.zeros(len(lo), bool)
    for symbol in range(len(delta[0])):
        nodes = np.array([v for v in reached if delta[labels[v]][symbol] is not None], int)
        if not len(nodes):
            continue
        to = following[nodes, symbol]
        low, high = image(net, symbol, (lo[nodes], hi[nodes]))
        _need(bool((lo[to] <= low).all() and (high <= hi[to]).all()), "an image leaves its box")
        entered[to] = True
    least = np.inf
    for answer in sorted({a for a in answers if a is not None}):
        scored = [v for v in np.nonzero(entered)[0] if answers[labels[v]] == answer]
        if scored:
            lead = margin(net["head"], answer, output(net, (lo[scored], hi[scored])))
            least = float(np.minimum(least, lead))  # of a nan it is nan
    _need(0 < least < np.inf, "a box on which the right answer does not lead")
    return {"nodes": len(reached), "margin": float(least)}


def image(net: dict[str, Any], symbol: int, box: Box) -> Box:
    """Return boxes that hold what float32 makes of every state of some boxes (N, D)."""
    if net["kind"] == "blockdiag":
        return _moved(net["layers"][symbol], box)
    one = net["table"][symbol][None]
    below, at, found = (one, one), 0, []
    for w, u, b, c in net["layers"]:
        units, step = u.shape[1], {"gru": _gru, "lstm": _lstm}.get(net["kind"], _tanh_layer)
        size = 2 * units if net["kind"] == "lstm" else units
        after = step(w, u, b, c, below, (box[0][:, at : at + size], box[1][:, at : at + size]))
        at += size
        found.append(after)
        below = after[0][:, :units], after[1][:, :units]
    lows, highs = zip(*found, strict=True)
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)


def _tanh_layer(w: Array, u: Array, b: Array, c: Array, below: Box, h: Box) -> Box:
    return _curve(np.tanh, _affine([(w, below), (u, h)], [(b, b), (c, c)]))


def _gru(w: Array, u: Array, b: Array, c: Array, below: Box, h: Box) -> Box:
    (w_r, w_z, w_n), (u_r, u_z, u_n) = np.split(w, 3), np.split(u, 3)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = np.split(b, 3), np.split(c, 3)
    r = _curve(_logistic, _affine([(w_r, below), (u_r, h)], [(b_r, b_r), (c_r, c_r)]))
    z = _curve(_logistic, _affine([(w_z, below), (u_z, h)], [(b_z, b_z), (c_z, c_z)]))
    reset = _times(r, _affine([(u_n, h)], [(c_n, c_n)]))
    new = _curve(np.tanh, _affine([(w_n, below)], [(b_n, b_n), reset]))
    # Linear in each of z, n and h: least and largest at corners. Float32 computes n + z (h - n) or
    # (1 - z) n + z h, in at most four roundings of numbers no larger than |h| + |n|.
    corners = [(1 - k) * n + k * x for k, n, x in itertools.product(z, new, h)]
    error = 8 * U32 * (_size(new) + _size(h)) + UNDERFLOW
    return np.minimum.reduce(corners) - error, np.maximum.reduce(corners) + error


def _lstm(w: Array, u: Array, b: Array, c: Array, below: Box, state: Box) -> Box:
    n = u.shape[1]
    h, cell = (state[0][:, :n], state[1][:, :n]), (state[0][:, n:], state[1][:, n:])
    gates = zip(np.split(w, 4), np.split(u, 4), np.split(b, 4), np.split(c, 4), strict=True)
    i, f, g, o = (_affine([(w, below), (u, h)], [(b, b), (c, c)]) for w, u, b, c in gates)
    kept = _times(_curve(_logistic, f), cell)
    written = _times(_curve(_logistic, i), _curve(np.tanh, g))
    error = 4 * U32 * (_size(kept) + _size(written)) + UNDERFLOW
    cell = kept[0] + written[0] - error, kept[1] + written[1] + error
    h = _times(_curve(_logistic, o), _curve(np.tanh, cell))
    return np.concatenate([h[0], cell[0]], axis=1), np.concatenate([h[1], cell[1]], axis=1)


def _moved(matrix: Array, box: Box) -> Box:
    _need(bool((box[0] == box[1]).all()), "a box of an exact model that is no point")
    _need(_exact(np.abs(box[0]).sum(1), box[0]), "a state that float32 might round")
    states = box[0].reshape(len(box[0]), *matrix.shape[:2])
    return (np.einsum("hij,nhj->nhi", matrix, states).reshape(box[0].shape),) * 2


def output(net: dict[str, Any], box: Box) -> Box:
    """Return boxes of what the norm reads of some boxes of states: the last layer's output."""
    if net["out"] is not None:
        w, b = net["out"]
        return _affine([(w, box)], [(b, b)])
    n = len(net["head"][0])
    last = slice(-2 * n, -n) if net["kind"] == "lstm" else slice(-n, None)
    return box[0][:, last], box[1][:, last]


def margin(head: Any, answer: int, box: Box) -> float:
    """Return by how much, at least, the answer's computed logit leads on all of some boxes (N, n).

    (l_p - l_o) sigma = v . x + k sigma is linear in x but for sigma = sqrt(variance + eps), which
    is bounded by itself; whoever leads does so whatever sigma > 0 divides by.
    """
    scale, shift, weight, bias, eps = head
    n, (lo, hi) = len(scale), box
    most = np.maximum(np.abs(lo), np.abs(hi)).max(1)  # (N,)
    centring = np.eye(n) - 1 / n
    centre, radius, _ = _product(centring, box)
    radius = radius + 1e-12 * most[:, None]
    low = np.maximum(np.abs(centre) - radius, 0)
    var_lo = (low**2).mean(1) * (1 - 1e-12)
    var_hi = ((np.abs(centre) + radius) ** 2).mean(1) * (1 + 1e-12)
    sigma_lo, sigma_hi = np.sqrt(var_lo + eps) * (1 - 1e-12), np.sqrt(var_hi + eps) * (1 + 1e-12)
    # what float32 may err: variance (one pass or two), its root, differences, scale, product
    variance_error = gamma(8 * n + 32, U32) * most**2 + UNDERFLOW
    _need(bool((var_lo + eps > 2 * variance_error).all()), "a box whose variance may be rounding")
    relative = variance_error / (var_lo + eps - variance_error) + 8 * U32
    largest = 2 * most / sigma_lo * (1 + relative)  # of a normalised number
    error = largest * (relative + gamma(n + 16, U32))  # and of its rounding
    least = np.inf
    for other in range(len(weight)):
        if other == answer:
            continue
        difference = (weight[answer] - weight[other]) * scale
        v = difference - difference.mean()
        k = float((weight[answer] - weight[other]) @ shift + bias[answer] - bias[other])
        middle, spread, _ = _product(v[None], box)
        slack = gamma(4 * n + 16, U64) * np.abs(weight).max() * n * np.abs(scale).max()
        linear = (middle - spread)[:, 0] - slack * most
        k_error = gamma(2 * n + 8, U64) * float(
            (np.abs(weight[answer]) + np.abs(weight[other])) @ np.abs(shift)
            + abs(bias[answer])
            + abs(bias[other])
        )
        lead = linear + np.minimum((k - k_error) * sigma_lo, (k - k_error) * sigma_hi)
        lead = lead / np.where(lead > 0, sigma_hi, sigma_lo)
        rounding = np.zeros_like(lead)
        for row in (answer, other):
            size = np.abs(weight[row]) @ np.abs(scale)
            offset = np.abs(weight[row]) @ np.abs(shift) + abs(bias[row])
            rounding += size * error + gamma(n + 8, U32) * (size * largest + offset)
        least = float(np.minimum(least, (lead - 1.01 * rounding - UNDERFLOW).min()))
    return least


def machine(task: Any, symbols: int) -> tuple[int, list[list[int | None]], list[int | None]]:
    """Return start, edges and answers of a task's machine, written anew from its definition.

    The file's successors have `symbols` columns: what has others is refused before it is made.
    """
    name, settings = task.get("name"), task.get("settings", {})
    m = settings.get("modulus")
    _need(type(m) is int and 2 <= m <= 1000, "a modulus that is none")
    _need(symbols == (m + 3 if name == "mod_arith" else m), "successors of another shape")
    _need(name != "mod_arith" or m <= 100, "a machine that is too large for this checker")
    if name in ("sum", "parity"):
        _need(name == "sum" or m == 2, "parity is modulo 2")
        return 0, [[(q + s) % m for s in range(m)] for q in range(m)], list(range(m))
    if name == "even_pair":  # state 1 + 2 first + (last = first), 0 the empty string
        edges: list[list[int | None]] = [[1 + 2 * s + 1 for s in range(m)]]
        edges += [[1 + 2 * f + (s == f) for s in range(m)] for f in range(m) for _ in (0, 1)]
        return 0, edges, [None] + [same for _ in range(m) for same in (0, 1)]
    if name == "mod_arith":  # 2 (f m + p) + (1: an operator must come), f + p so far, p may grow
        edges = []
        for f in range(m):
            for p in range(m):
                edges.append([2 * (f * m + p * s % m) + 1 for s in range(m)] + [None] * 3)
                plus, minus = 2 * ((f + p) % m * m + 1 % m), 2 * ((f + p) % m * m + (m - 1))
                edges.append([None] * m + [plus, minus, 2 * (f * m + p)])
        return 2, edges, [a for f in range(m) for p in range(m) for a in (None, (f + p) % m)]
    raise Refused(f"a task that this checker does not know: {str(name)[:40]}")


def digest(weights: dict[str, Array]) -> str:
    """Return the sha256 of names, shapes and numbers, sorted by name."""
    found = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name])
        found.update(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
        found.update(value.tobytes())
    return found.hexdigest()


def gamma(terms: int, unit: float) -> float:
    """Return the bound on the relative error of so many roundings."""
    return terms * unit / (1 - terms * unit)


def _affine(products: list[tuple[Array, Box]], added: list[Box]) -> Box:
    """Return boxes of the sum of all W x and all v, as float32 adds them up in any order."""
    centre, radius, size, terms = 0.0, 0.0, 0.0, 8
    for w, x in products:
        middle, spread, most = _product(w, x)
        centre, radius, size = centre + middle, radius + spread, size + most
        terms += 2 * w.shape[1]
    for v in added:
        middle = (v[0] + v[1]) / 2
        centre, size = centre + middle, size + _size(v)
        radius = radius + np.maximum(v[1] - middle, middle - v[0])
    radius = radius + (gamma(terms, U32) + gamma(16, U64)) * size * (1 + 1e-12) + UNDERFLOW
    return centre - radius, centre + radius


def _times(a: Box, b: Box) -> Box:
    """Return boxes of products, as float32 rounds them."""
    corners = [x * y for x, y in itertools.product(a, b)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    error = 2 * U32 * _size((low, high)) + UNDERFLOW
    return low - error, high + error


def _curve(function: Any, x: Box) -> Box:
    return function(x[0]) - CURVE32 - CURVE64, function(x[1]) + CURVE32 + CURVE64


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _size(x: Box) -> Array:
    return np.maximum(np.abs(x[0]), np.abs(x[1]))


def _product(w: Array, box: Box) -> tuple[Array, Array, Array]:
    """Return centre and radius of W x over boxes (N, n), rounding in, and a bound on |W| |x|."""
    middle = (box[0] + box[1]) / 2
    radius = np.maximum(box[1] - middle, middle - box[0]) * (1 + 4 * U64) + TINY
    size = (np.abs(middle) + radius) @ np.abs(w).T * (1 + gamma(len(w.T) + 4, U64)) + TINY
    spread = radius @ np.abs(w).T * (1 + gamma(len(w.T) + 4, U64))
    return middle @ w.T, spread + 2 * gamma(len(w.T) + 4, U64) * size, size


def _labels(following: Array, start: int, delta: Any) -> Array:
    """Return the machine's state at each node, -1 where no string leads."""
    labels = np.full(len(following), -1)
    labels[0], waiting = start, [0]
    while waiting:
        node = waiting.pop()
        for symbol, state in enumerate(delta[labels[node]]):
            if state is None:
                continue
            to = int(following[node, symbol])
            _need(0 <= to < len(following), "a successor that is no node")
            if labels[to] == -1:
                labels[to] = state
                waiting.append(to)
            _need(labels[to] == state, "two states of the task at one node")
    return labels


def network(claim: Any, w: dict[str, Array]) -> dict[str, Any]:
    """Return kind, vectors of symbols, layers, start, out and head of the model that is named."""
    model = claim.get("model", {})
    stack, mixer, kind = model.get("backbone", {}), model.get("mixer", {}), model.get("name")
    known = kind in ("elman", "gru", "lstm", "blockdiag")
    known = known or (kind == "rnn" and mixer.get("nonlinearity") == "tanh")
    known = known and stack.get("name") == "bare" and stack.get("norm") is True
    known = known and stack.get("hidden") == 0 and stack.get("embed") in ("embedding", "one_hot")
    _need(bool(known), "a model that this checker does not know")
    assumed = (ARITHMETIC, BEFORE) if kind == "rnn" else (ARITHMETIC,)
    _need(claim.get("arithmetic") in assumed, "another arithmetic than float32 as assumed here")
    _need(all(v.dtype == np.float32 for v in w.values()), "weights must be float32")
    _need(all(np.isfinite(v).all() for v in w.values()), "a weight that is not finite")
    left = {name: value.astype(np.float64) for name, value in w.items()}
    for name, value in left.items():
        small = value.size == 0 or np.abs(value).max() <= LARGEST_WEIGHT
        _need(bool(small) and max(value.shape, default=0) <= MOST_UNITS, f"{name} is too large")
    count = model.get("layers")
    _need(type(count) is int and 1 <= count <= len(w), "a number of layers that is none")
    # what is used is taken out of `left`, and nothing may be left
    scale, shift = left.pop("norm.weight"), left.pop("norm.bias")
    weight, bias = left.pop("head.0.weight"), left.pop("head.0.bias")
    table = left.pop("embedding.weight") if stack["embed"] == "embedding" else None
    net = _blocks(mixer, left, table) if kind == "blockdiag" else _cells(kind, count, left, table)
    _need(not left and (kind != "blockdiag" or count == 1), "weights of another model")
    n = net["width"]
    good = scale.shape == shift.shape == (n,) and weight.shape == (len(bias), n)
    _need(good and len(bias) >= 2, "a head that does not fit")
    return {**net, "kind": kind, "head": (scale, shift, weight, bias, 1e-5)}


def _cells(kind: str, count: int, left: dict[str, Array], table: Array | None) -> dict[str, Any]:
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
        good = w.shape == (gates * n, below) and u.shape == (gates * n, n)
        _need(good and b.shape == c.shape == (gates * n,), "weights that do not fit each other")
        layers.append((w, u, b, c))
        below, size = n, size + n * (2 if kind == "lstm" else 1)
    table = _one_hot(layers[0][0].shape[1]) if table is None else table
    return {"table": table, "layers": layers, "start": np.zeros(size), "width": n, "out": None}


def _blocks(mixer: Any, left: dict[str, Array], table: Array | None) -> dict[str, Any]:
    """Return the matrices A_s that symbols make, if they are of whole numbers, as `layers`."""
    maps = {}
    for name in ("transition", "value"):
        indices = [0, 2] if f"mixers.0.{name}.2.weight" in left else [0]
        named = [f"mixers.0.{name}.{index}" for index in indices]
        maps[name] = [(left.pop(f"{one}.weight"), left.pop(f"{one}.bias")) for one in named]
    table = _one_hot(maps["transition"][0][0].shape[1]) if table is None else table
    start = left.pop("mixers.0.start")
    blocks, b = start.shape
    _need(mixer.get("constraint") in ("none", "column_clip", "column_unit"), "columns are changed")
    p = mixer.get("p")
    known = mixer["constraint"] == "none" or (type(p) in (int, float) and 1 <= p <= LARGEST_P)
    _need(known, f"a norm of columns that float32 might not know: p must be 1 to {LARGEST_P:g}")
    _need(not _without_rounding(maps["value"], table).any(), "a recurrence that writes its state")
    made = _without_rounding(maps["transition"], table).reshape(len(table), blocks, b, b)
    _need(bool((np.abs(made).sum(2) <= 1).all()), "columns of more than one entry 1 or -1")
    size = blocks * b
    net = {"table": table, "layers": made, "start": start.reshape(-1)}
    if "mixers.0.out.weight" not in left:
        return {**net, "width": size, "out": None}
    out = left.pop("mixers.0.out.weight"), left.pop("mixers.0.out.bias")
    good = out[0].shape == (len(out[1]), size)
    _need(good, "weights that do not fit each other")
    return {**net, "width": len(out[1]), "out": out}


def _one_hot(symbols: int) -> Array:
    _need(symbols <= MOST_SYMBOLS, "too many symbols for this checker")
    return np.eye(symbols)


def _without_rounding(layers: Any, u: Array) -> Array:
    """Return W relu(.. u ..) + b, where all numbers are whole and small enough for exact sums."""
    for k, (w, b) in enumerate(layers):
        u = np.maximum(u, 0) if k else u
        _need(w.shape == (len(b), u.shape[1]), "weights that do not fit each other")
        _need(len(u) * len(b) <= MOST_BYTES // 8, "too many matrices for this checker")
        sizes = np.abs(u) @ np.abs(w).T + np.abs(b)
        _need(
            _exact(sizes, u, w, b), "matrices that float32 might round: numbers that are not whole"
        )
        u = u @ w.T + b
    return u


def _exact(sizes: Array, *numbers: Array) -> bool:
    """Whether numbers are whole, and sums of so many in absolute value exact in float32."""
    return bool((sizes < 2**24).all() and all((x == np.rint(x)).all() for x in numbers))


def _read(file: Path) -> tuple[Any, dict[str, Array]]:
    """Return the file and its arrays, having looked at sizes first; nothing in it is executed."""
    try:
        _need(file.is_file(), "no plain file")  # a pipe would wait, a device never end
        _need(file.stat().st_size <= 1 << 20, "too large for a certificate")
        claim = json.loads(file.read_text())
        _need(isinstance(claim, dict) and claim.get("format") == "lrbench-certificate", "no format")
        _need(
            claim.get("version") == 1 and claim.get("verdict") == "certified", "it proves nothing"
        )
        _need(all(isinstance(claim.get(k), dict) for k in ("task", "model", "arrays")), "no parts")
        name = str(claim["arrays"].get("file"))
        _need(Path(name).name == name and name.endswith(".npz"), "arrays must lie beside the file")
        path = file.with_name(name)
        _need(path.is_file() and path.stat().st_size <= MOST_BYTES, "arrays too large")
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        _need(sha == claim["arrays"].get("sha256"), "the arrays are not those of the digest")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _need(sum(member.file_size for member in members) <= MOST_BYTES, "arrays too large")
            _need(len({m.filename for m in members}) == len(members), "two arrays of one name")
        with np.load(path, allow_pickle=False) as stored:
            return claim, {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, RecursionError, EOFError) as error:
        raise Refused(f"it cannot be read: {str(error)[:200]}") from error


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)


def main() -> None:
    """Check the file that the command line names; exit 0 if it is a proof, 1 if not."""
    if len(sys.argv) != 2:
        sys.exit("usage: python check.py certificates/last.json")
    try:
        found = check(Path(sys.argv[1]))
    except Refused as why:
        sys.exit(f"refused: {why}")
    print(f"holds: {found['nodes']:.0f} nodes, least margin {found['margin']:.3g}")


if __name__ == "__main__":
    main()
