"""Bounds on rounding hold an arithmetic that errs as far as it may, in every single operation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from lrbench.certificates import check, tanh_check
from lrbench.certificates import images as prover
from lrbench.certificates.check import enclosures

from .adverse import Adverse
from .test_images import both, random_net

COARSE = 2.0**-16  # 256 times the unit of float32
CASES = [("rnn", 2, False), ("elman", 1, False), ("gru", 1, False), ("lstm", 1, False)]
SATURATED = [("gru", 1, True), ("lstm", 1, True)]


def think_of(unit: float, patch: pytest.MonkeyPatch) -> Adverse:
    """Let prover and both checkers think of an arithmetic of another unit than float32's."""
    patch.setattr(enclosures, "U32", unit)
    patch.setattr(enclosures, "CURVE32", 8 * unit)
    patch.setattr(prover, "UNIT", unit)
    patch.setattr(tanh_check, "UNIT", unit)
    return Adverse(unit)


@pytest.mark.parametrize("units", [1, 3, 40])
@pytest.mark.parametrize(("kind", "layers", "saturated"), CASES + SATURATED)
def test_images_hold_what_errs_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, kind: str, layers: int, saturated: bool, units: int
) -> None:
    """Of points, whose images are rounding alone; those for a smaller unit do not hold it.

    saturated: what is written is 1 or -1 and gates are a half, so that sums err by little beside
    the products of gates and states.
    """
    coarse = think_of(COARSE, monkeypatch)
    model, config = random_net(kind, 3, units, layers, 3, 2.0)
    if saturated:
        new = slice(2 * units, 3 * units)  # of gru and lstm alike
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "mixers" in name:
                    kept = parameter[new] * 0
                    parameter.zero_()
                    parameter[new] = kept + (20 if name.endswith("bias_ih_l0") else 0)
    net, theirs = both(model, config)
    rng = np.random.default_rng(0)
    for symbol, least in product((0, 2), (-1.0, 0.5, 1.0)):  # states of both signs, positive, one
        state = rng.uniform(least, 1, net.carried)
        box = state[None], state[None]
        found = [check.image(theirs, symbol, box), prover.images(net, symbol, *box)]
        if net.kind == "tanh":
            weights = {name: value.numpy() for name, value in model.state_dict().items()}
            found.append(tanh_check.image(tanh_check.network(config, weights), symbol, *box))
        for way in (np.ones(units), -np.ones(units), rng.choice([-1.0, 1.0], units)):
            below, after, at = net.table[symbol], [], 0
            for layer, size in zip(net.layers, net.sizes, strict=True):
                new_state = coarse.cell(net.kind, layer, below, state[at : at + size], way)
                after, at, below = [*after, new_state], at + size, new_state[:units]
            reached = np.concatenate(after)
            for low, high in found:
                assert (low[0] <= reached + 1e-13).all() and (reached <= high[0] + 1e-13).all()
    think_of(COARSE / 4, monkeypatch)
    low, high = check.image(theirs, symbol, box)
    assert not ((low[0] <= reached) & (reached <= high[0])).all()


@pytest.mark.parametrize("units", [2, 3, 40])
@pytest.mark.parametrize(
    ("offset", "unit", "bias"), [(0.0, COARSE, 3.0), (30.0, 2.0**-22, 3.0), (0.0, COARSE, 1e3)]
)
def test_the_margin_is_below_a_lead_that_errs_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, offset: float, unit: float, bias: float, units: int
) -> None:
    """Of points.

    offset: of what the norm reads; its variance may be a small difference of large sums. bias: of
    the head, up to which logits may be large and near each other.
    """
    adverse, exact = think_of(unit, monkeypatch), Adverse(0.0)
    rng = np.random.default_rng(units)
    for case in range(20):
        signs = rng.choice([-1.0, 1.0], (3, units)) if case % 2 else np.ones((3, units))
        weight = signs * rng.uniform(0.5, 1.5, (3, units))
        scale, shift = rng.uniform(0.5, 1.5, units), rng.uniform(-2, 2, units)
        head = (scale, shift, weight, bias + rng.uniform(-3, 3, 3), 1e-5)
        x = offset + (-1.0) ** np.arange(units) * rng.uniform(0.5, 1, units)
        ways = list(product((-1, 1), (-1, 1), (False, True)))
        leads = [adverse.lead(head, (0, other), x, each) for other in (1, 2) for each in ways]
        assert check.margin(head, 0, (x[None], x[None])) <= min(leads)
        parts = {"norm": head[:2], "head": head[2:4]}
        assert tanh_check.lead(parts, 0, x[None], x[None]) <= min(leads)
        right = [exact.lead(head, (0, other), x, ways[0]) for other in (1, 2)]
        assert min(leads) < min(right) - unit * units  # it does err
