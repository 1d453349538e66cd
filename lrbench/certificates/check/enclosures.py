"""Boxes around what float32 computes: of a step of a network, of its output, of a lead.

Every bound holds for any order of summation, fused or not. The checker's own float64 is widened
likewise. Arrays are of numpy; a box is lo and hi, (N, n) each, of N boxes in one go.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .reading import need

U32, U64 = 2.0**-24, 2.0**-53
CURVE32, CURVE64 = 8 * U32, 1e-15  # absolute errors of tanh and logistic, in float32 and here
# What flushed subnormals may add up to: 2^-126 a product, times its partner, times how many.
UNDERFLOW, TINY = 1e-20, 1e-300

Array = Any  # of numpy
Box = tuple[Any, Any]  # lo, hi


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
    need(bool((box[0] == box[1]).all()), "a box of an exact model that is no point")
    need(exact(np.abs(box[0]).sum(1), box[0]), "a state that float32 might round")
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
    is bounded by itself; the logit that leads does so whatever sigma > 0 divides by.
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
    need(bool((var_lo + eps > 2 * variance_error).all()), "a box whose variance may be rounding")
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


def exact(sizes: Array, *numbers: Array) -> bool:
    """Whether numbers are whole, and sums of so many in absolute value exact in float32."""
    return bool((sizes < 2**24).all() and all((x == np.rint(x)).all() for x in numbers))
