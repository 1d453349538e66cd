"""The checker of certificates: whether a file proves a network right on every string of a task.

It needs numpy and nothing else of lrbench: `python check.py certificates/last.json`. It was written
apart from the search that makes such files, and believes nothing of them but three arrays: boxes
lo and hi (V, D), one for each node, and next (V, S), the node that follows each by each symbol.

The network is a stack of L tanh layers of n units, D = L n, read by LayerNorm and a linear map:

    x_l' = tanh(W_l u_l + b_l + U_l x_l + c_l),  u_1 the symbol's vector, u_l = x_(l-1)'
    logits = H (gamma (x_L' - mean) / sqrt(variance + eps) + beta) + d

The proof, by induction on length: the start lies in the box of node 0; from every box each symbol
leads into the box of the next node; nodes walk along with the task's machine; and on all of a
node's box the right answer's logit is the largest. All of it is about what float32 computes, in
any order of summation: each image is widened by a bound on its rounding. The checker's own float64
is widened likewise.

Assumed: tanh within 8 units of 2^-24 (4 ulp), no TF32, subnormals kept or flushed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

U32, U64 = 2.0**-24, 2.0**-53
TANH32, TANH64 = 8 * U32, 1e-15  # absolute errors of tanh in float32 and here
# What flushed subnormals may add up to: 2^-126 a product, times its partner, times how many.
UNDERFLOW, TINY = 1e-20, 1e-300
MOST_BYTES, MOST_NODES, MOST_SYMBOLS = 1 << 28, 1_000_000, 1003
# Beyond these float32 might overflow, and the bounds below say nothing of infinity.
LARGEST_WEIGHT, WIDEST_SIDE, MOST_UNITS = 1e6, 2.0, 100_000
ARITHMETIC = {"unit": U32, "tanh_error": TANH32, "format": "float32"}

Array = Any  # of numpy
Box = tuple[Any, Any]  # lo, hi


class Refused(Exception):
    """The file proves nothing, and why."""


def check(file: Path) -> dict[str, float]:
    """Return the nodes reached and the least margin of a proof that holds; Refused otherwise."""
    try:
        told, arrays = _read(file)
        with np.errstate(all="ignore"):  # what overflows becomes inf or nan, and is refused
            return _checked(told, arrays)
    except Refused:
        raise
    except Exception as error:  # bytes from anywhere can make a parser raise anything at all
        raise Refused(f"parts of another kind than a certificate's: {error!r:.200}") from error


def _checked(told: Any, arrays: dict[str, Array]) -> dict[str, float]:
    weights = {k.removeprefix("w/"): v for k, v in arrays.items() if k.startswith("w/")}
    _need(digest(weights) == told.get("weights_sha256"), "the weights are not those of the digest")
    layers, head = _network(told, weights)
    _need({"lo", "hi", "next"} <= set(arrays), "lo, hi and next must be there")
    lo, hi, following = arrays["lo"], arrays["hi"], arrays["next"]
    size = sum(len(u) for _, u, _, _ in layers[1])
    _need(lo.ndim == 2 and lo.shape == hi.shape == (len(lo), size), "boxes of another size")
    _need(lo.dtype == hi.dtype == np.float64, "boxes must be float64")
    _need(bool(np.isfinite(lo).all() and np.isfinite(hi).all()), "a side that is not finite")
    _need(bool((lo <= hi).all()), "a box with lo above hi")
    inside = (lo >= -WIDEST_SIDE).all() and (hi <= WIDEST_SIDE).all()
    _need(bool(inside), f"a box beyond {WIDEST_SIDE}, where no tanh is")
    _need(0 < len(lo) <= MOST_NODES, "too many nodes, or none")
    _need(following.ndim == 2 and following.shape[1] <= MOST_SYMBOLS, "successors of another shape")
    start, delta, answers = machine(told["task"], following.shape[1])
    _need(following.shape == (len(lo), len(delta[0])), "successors of another shape")
    _need(following.dtype == np.int32, "successors must be int32")
    _need(len(layers[0]) == len(delta[0]), "another number of symbols than the task has")
    classes = 1 + max(a for a in answers if a is not None)
    _need(len(head[2]) == classes, "another number of classes than the task has")
    labels = _labels(following, start, delta)
    _need(bool((lo[0] <= 0).all() and (hi[0] >= 0).all()), "the start lies outside its box")

    reached, entered = np.nonzero(labels >= 0)[0], np.zeros(len(lo), bool)
    for symbol in range(len(delta[0])):
        nodes = np.array([v for v in reached if delta[labels[v]][symbol] is not None], int)
        if not len(nodes):
            continue
        to = following[nodes, symbol]
        low, high = image(layers, symbol, (lo[nodes], hi[nodes]))
        _need(bool((lo[to] <= low).all() and (high <= hi[to]).all()), "an image leaves its box")
        entered[to] = True
    least, last = np.inf, slice(size - len(head[0]), size)
    for answer in sorted({a for a in answers if a is not None}):
        asked = [v for v in np.nonzero(entered)[0] if answers[labels[v]] == answer]
        if asked:
            lead = margin(head, answer, (lo[asked, last], hi[asked, last]))
            least = float(np.minimum(least, lead))  # of a nan it is nan
    _need(0 < least < np.inf, "a box on which the right answer does not lead")
    return {"nodes": len(reached), "margin": float(least)}


def image(layers: Any, symbol: int, box: Box) -> Box:
    """Return boxes that hold what float32 makes of every state of some boxes (N, D)."""
    table, stack = layers
    one, at, found = table[symbol][None], 0, []
    below: Box = (one, one)
    for w, u, b, c in stack:
        state = box[0][:, at : at + len(u)], box[1][:, at : at + len(u)]
        at += len(u)
        centre, radius, size = _product(w, below)
        own, own_radius, own_size = _product(u, state)
        total = size + np.abs(b) + np.abs(c) + own_size
        centre = centre + b + own + c
        terms = 2 * max(w.shape) + 2 * len(u) + 8
        radius = radius + own_radius + gamma(terms, U32) * total * (1 + 1e-12) + UNDERFLOW
        radius = radius + gamma(8, U64) * total + TINY
        below = (
            np.tanh(centre - radius) - TANH32 - TANH64,
            np.tanh(centre + radius) + TANH32 + TANH64,
        )
        found.append(below)
    return tuple(np.concatenate(side, axis=1) for side in zip(*found, strict=True))  # type: ignore[return-value]


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


def _network(told: Any, w: dict[str, Array]) -> tuple[Any, Any]:
    """Return ((vectors of symbols, layers (W, U, b, c)), head) of the model that the file names."""
    model = told.get("model", {})
    stack, mixer = model.get("backbone", {}), model.get("mixer", {})
    known = model.get("name") == "rnn" and mixer.get("nonlinearity") == "tanh"
    known = known and stack.get("name") == "bare" and stack.get("norm") is True
    known = known and stack.get("hidden") == 0 and stack.get("embed") in ("embedding", "one_hot")
    _need(bool(known), "a model that this checker does not know")
    _need(told.get("arithmetic") == ARITHMETIC, "another arithmetic than float32 as assumed here")
    exact = {name: value.astype(np.float64) for name, value in w.items()}
    _need(all(v.dtype == np.float32 for v in w.values()), "weights must be float32")
    _need(all(np.isfinite(v).all() for v in w.values()), "a weight that is not finite")
    for name, value in exact.items():
        small = value.size == 0 or np.abs(value).max() <= LARGEST_WEIGHT
        _need(bool(small) and max(value.shape, default=0) <= MOST_UNITS, f"{name} is too large")
    layers_told = model.get("layers")
    _need(
        type(layers_told) is int and 1 <= layers_told <= len(w), "a number of layers that is none"
    )
    names = [f"mixers.{i}.network" for i in range(layers_told)]
    parts = [("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")] * len(names)
    wanted = [f"{n}.{p}" for n, four in zip(names, parts, strict=True) for p in four]
    ends = ["norm.weight", "norm.bias", "head.0.weight", "head.0.bias"]
    first = ["embedding.weight"] if stack["embed"] == "embedding" else []
    _need(sorted(w) == sorted([*wanted, *ends, *first]), "weights of another model")
    layers = [tuple(exact[f"{n}.{p}"] for p in four) for n, four in zip(names, parts, strict=True)]
    _need(all(part.ndim == 2 for part in layers[0][:2]), "weights that do not fit each other")
    width = layers[0][0].shape[-1]
    table = exact[first[0]] if first else np.eye(width)
    _need(table.ndim == 2, "weights that do not fit each other")
    below = table.shape[-1]
    for matrix, own, b, c in layers:
        n = len(own)
        good = matrix.shape == (n, below) and own.shape == (n, n) and b.shape == c.shape == (n,)
        _need(good, "weights that do not fit each other")
        below = n
    scale, shift, weight, bias = (exact[name] for name in ends)
    good = scale.shape == shift.shape == (below,) and weight.shape == (len(bias), below)
    _need(good and len(bias) >= 2, "a head that does not fit")
    return (table, layers), (scale, shift, weight, bias, 1e-5)


def _read(file: Path) -> tuple[Any, dict[str, Array]]:
    """Return the file and its arrays, having looked at sizes first; nothing in it is executed."""
    try:
        _need(file.is_file(), "no plain file")  # a pipe would wait, a device never end
        _need(file.stat().st_size <= 1 << 20, "too large for a certificate")
        told = json.loads(file.read_text())
        _need(isinstance(told, dict) and told.get("format") == "lrbench-certificate", "no format")
        _need(told.get("version") == 1 and told.get("verdict") == "certified", "it proves nothing")
        _need(all(isinstance(told.get(k), dict) for k in ("task", "model", "arrays")), "no parts")
        name = str(told["arrays"].get("file"))
        _need(Path(name).name == name and name.endswith(".npz"), "arrays must lie beside the file")
        path = file.with_name(name)
        _need(path.is_file() and path.stat().st_size <= MOST_BYTES, "arrays too large")
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        _need(sha == told["arrays"].get("sha256"), "the arrays are not those of the digest")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _need(sum(member.file_size for member in members) <= MOST_BYTES, "arrays too large")
            _need(len({m.filename for m in members}) == len(members), "two arrays of one name")
        with np.load(path, allow_pickle=False) as stored:
            return told, {name: stored[name] for name in stored.files}
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
