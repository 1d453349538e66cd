"""Images of boxes hold what float32 makes of every state, and are hardly larger than they must."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import iv, mp
from torch import nn

from lrbench.certificates import check
from lrbench.certificates.check import enclosures
from lrbench.certificates.images import Cells, cells_of, images, images_and_keeping, leads
from lrbench.config import Config
from lrbench.models.build import build_model

from .exact import exact_config
from .in_float32 import Shuffled

KINDS = ("rnn", "elman", "gru", "lstm")


def random_net(
    kind: str, seed: int, units: int, layers: int, symbols: int, scale: float
) -> tuple[nn.Module, dict[str, Any]]:
    """Return a network with random weights, those of its layers times `scale`, and its node."""
    node = exact_config(units, kind, layers)
    model = build_model(Config(model=node), symbols, symbols, seed=seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "mixers" in name:
                parameter *= scale
    return model.eval(), dataclasses.asdict(node)


def both(model: nn.Module, config: dict[str, Any]) -> tuple[Cells, dict[str, Any]]:
    """Return a network as the prover and as the checker read it."""
    net = cells_of(model, config)
    assert isinstance(net, Cells)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    return net, check.network(config, weights)


@pytest.mark.parametrize(
    ("kind", "layers"), [("rnn", 1), ("rnn", 3), ("elman", 2), ("gru", 1), ("gru", 2), ("lstm", 2)]
)
def test_images_hold_what_float32_makes(kind: str, layers: int) -> None:
    """Both image codes agree and hold 5,000 states of random boxes each, corners included.

    The states go on by torch, and in sums whose order is drawn anew.
    """
    units, symbols = 5, 3
    model, config = random_net(kind, 1, units, layers, symbols, 2.0)
    net, theirs_net = both(model, config)
    shuffled = Shuffled(kind, model.state_dict(), seed=0)
    rng = np.random.default_rng(0)
    sizes = net.sizes
    for _ in range(10):
        middle, radius = rng.uniform(-1, 1, (1, sum(sizes))), 10.0 ** rng.uniform(-6, -0.3)
        lo, hi = middle - radius, middle + radius
        inside = _states(rng, lo, hi, 5000)
        carried = np.split(inside, np.cumsum(sizes)[:-1], axis=1)
        for symbol in range(symbols):
            ours = images(net, symbol, lo, hi)
            box = check.image(theirs_net, symbol, (lo, hi))
            for a, b in zip(ours, box, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
            tokens = np.full(len(inside), symbol)
            logits, after = shuffled.step(tokens, carried)
            by_torch, after_torch = _step(model, kind, tokens, carried)
            assert np.abs(logits - by_torch).max() < 1e-2 * (1 + np.abs(by_torch).max())
            for reached in (np.concatenate(after, 1), after_torch):
                assert (box[0] <= reached).all() and (reached <= box[1]).all()
            # and the margin is below every lead that is computed on the box it is given
            head = check.output(theirs_net, box)
            for answer in range(symbols):
                least = check.margin(theirs_net["head"], answer, head)
                for values in (logits, by_torch):
                    others = np.delete(values, answer, axis=1).max(1)
                    assert least <= float((values[:, answer].astype(float) - others).min())
                if least > 0:
                    assert least <= leads(net.head, np.array([answer]), *head)[0] + 1e-9


def _states(rng: np.random.Generator, lo: Any, hi: Any, count: int) -> Any:
    """Draw float32 states of a box, a quarter of them at its corners."""
    states = lo + (hi - lo) * rng.random((count, lo.shape[1]))
    corners = rng.random((count // 4, lo.shape[1])) < 0.5
    states[: count // 4] = np.where(corners, lo, hi)
    near = states.astype(np.float32)
    near = np.where(near < lo, np.nextafter(near, np.float32(9)), near)
    near = np.where(near > hi, np.nextafter(near, np.float32(-9)), near)
    assert (near >= lo).all() and (near <= hi).all()
    return near


def _step(model: nn.Module, kind: str, tokens: Any, carried: Sequence[Any]) -> tuple[Any, Any]:
    states: list[Any] = [torch.from_numpy(np.ascontiguousarray(part)) for part in carried]
    if kind == "lstm":
        states = [tuple(part.chunk(2, 1)) for part in states]
    with torch.no_grad():
        logits, after = model(torch.from_numpy(tokens)[:, None], states, read="last")
    parts = [torch.cat(part, 1) if isinstance(part, tuple) else part for part in after]
    return logits.numpy(), torch.cat(parts, 1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_those_of_interval_arithmetic(kind: str) -> None:
    """The checker's images of three units hold the exact ones, of 40 digits, and little more."""
    model, config = random_net(kind, 2, units=3, layers=1, symbols=2, scale=3.0)
    net, theirs = both(model, config)
    layer = net.layers[0]
    rng = np.random.default_rng(1)
    for radius in (0.0, 1e-4, 0.1, 0.7):
        middle = rng.uniform(-1, 1, (1, net.carried))
        lo, hi = middle - radius, middle + radius
        low, high = check.image(theirs, 1, (lo, hi))
        with mp.workdps(40):
            iv.dps = 40
            exact = _exact_image(kind, layer, net.table[1], lo[0], hi[0])
        for unit, (least, most) in enumerate(exact):
            assert low[0, unit] <= least and most <= high[0, unit]
            assert least - low[0, unit] < 1e-5 and high[0, unit] - most < 1e-5


def _exact_image(kind: str, layer: Any, x: Any, lo: Any, hi: Any) -> list[tuple[float, float]]:
    """Return the image of a box (D,), gates taken as independent, least and largest at corners."""
    n = layer.units
    h = [iv.mpf([float(a), float(b)]) for a, b in zip(lo, hi, strict=True)]

    def sums(row: int, w: Any, value: Sequence[Any], *biases: Any) -> Any:
        total = sum((iv.mpf(float(b[row])) for b in biases), iv.mpf(0))
        return total + sum(iv.mpf(float(w[row, k])) * v for k, v in enumerate(value))

    given = [iv.mpf(float(v)) for v in x]

    def both_sums(row: int) -> Any:
        return sums(row, layer.w, given, layer.b) + sums(row, layer.u, h[:n], layer.c)

    def ends(v: Any) -> list[Any]:
        return [mp.make_mpf(end) for end in v._mpi_]

    def tanh(v: Any) -> Any:
        return iv.mpf([mp.tanh(end) for end in ends(v)])

    def logistic(v: Any) -> Any:
        return iv.mpf([1 / (1 + mp.exp(-end)) for end in ends(v)])

    def least_and_most(f: Any, *sides: Any) -> tuple[float, float]:
        values = [f(*corner) for corner in product(*map(ends, sides))]
        return float(min(values)), float(max(values))

    outputs, cells = [], []
    for k in range(n):
        if kind in ("rnn", "elman"):
            after = tanh(both_sums(k))
            outputs.append(least_and_most(lambda end: end, after))
        elif kind == "gru":
            r, z = logistic(both_sums(k)), logistic(both_sums(n + k))
            own = sums(2 * n + k, layer.u, h, layer.c)
            new = tanh(sums(2 * n + k, layer.w, given, layer.b) + r * own)
            mix = least_and_most(lambda g, a, b: (1 - g) * a + g * b, z, new, h[k])
            outputs.append(mix)
        else:
            i, f, o = (logistic(both_sums(row * n + k)) for row in (0, 1, 3))
            cell = f * h[n + k] + i * tanh(both_sums(2 * n + k))
            out = o * tanh(cell)
            outputs.append(least_and_most(lambda end: end, out))
            cells.append(least_and_most(lambda end: end, cell))
    return outputs + cells


def test_curves_of_torch_are_as_near_as_is_assumed() -> None:
    """tanh and logistic of 1e7 float32 arguments each, by torch, within 8 units of 2^-24."""
    x = torch.cat([torch.linspace(-20, 20, 9_000_001), torch.logspace(-30, 2, 1_000_000)])
    for function in (torch.tanh, torch.sigmoid):
        error = (function(x).double() - function(x.double())).abs().max()
        assert float(error) <= enclosures.CURVE32


def test_a_number_has_the_name_that_people_call_it_by() -> None:
    model, config = random_net("lstm", 0, units=2, layers=2, symbols=2, scale=1.0)
    net, _ = both(model, config)
    names = [net.named(number) for number in range(net.carried)]
    assert names[:4] == [f"{c}unit {k} of layer 1" for c in ("", "c of ") for k in (0, 1)]
    assert names[6:] == ["c of unit 0 of layer 2", "c of unit 1 of layer 2"]
    assert list(net.outputs) == [True, True, False, False] * 2
    assert net.read == slice(4, 6)
    # what a gate keeps is that of c alone, and at most one
    keeps = images_and_keeping(net, 0, np.zeros((1, 8)), np.zeros((1, 8)))[1]
    assert (keeps[0] > 0).tolist() == [False, False, True, True] * 2
