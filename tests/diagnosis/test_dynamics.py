"""Eigenvalues of known rotations; Jacobians against formulas and automatic gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lrbench.certificates.foretold import AffineSteps
from lrbench.certificates.reader import SymbolReader, chosen, flat, unflat
from lrbench.config import Config
from lrbench.diagnosis.dynamics import from_roots, growth, jacobians, order_of, spectra
from lrbench.models.build import build_model
from lrbench.schema import model_node
from lrbench.tasks.machine import explored

from .automata import machine_of


def model_of(name: str, symbols: int = 3, classes: int = 3, **settings: Any) -> Any:
    node = model_node(name)(**{"width": 6, **settings})
    return build_model(Config(model=node), symbols, classes, seed=2).eval()


def rotation(turns: float, modulus: float = 1.0) -> np.ndarray:
    angle = 2 * math.pi * turns
    return modulus * np.array(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    )


def test_eigenvalues_of_rotations() -> None:
    """Symbol s turns by s fifths, scaled; a third number is forgotten, and the basis is oblique."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    matrices = []
    for symbol, modulus in enumerate((1.0, 1.01, 0.98)):
        block = np.zeros((3, 3))
        block[:2, :2], block[2, 2] = rotation(symbol / 5 + 0.001, modulus), 0.3
        matrices.append(basis @ block @ np.linalg.inv(basis))
    found = spectra(AffineSteps(np.stack(matrices), np.zeros((3, 3)), np.zeros(3), None), 5)
    for symbol, modulus in enumerate((1.0, 1.01, 0.98)):
        one = found[symbol]
        assert one.symbol == symbol and len(one.slow) == 2
        assert one.radius == pytest.approx(modulus, abs=1e-9)
        exact = modulus * np.exp(2j * np.pi * (symbol / 5 + 0.001))
        assert min(abs(value - exact) for value in one.slow) < 1e-9
        off = abs(exact - np.exp(2j * np.pi * symbol / 5))
        assert one.away == pytest.approx((off, off), abs=1e-9)
        assert one.norm == pytest.approx(np.linalg.svd(matrices[symbol])[1][0])
    huge = AffineSteps(np.full((1, 2, 2), np.inf), np.zeros((1, 2)), np.zeros(2), None)
    assert spectra(huge, 5)[0].slow == ()


def test_distances_to_roots_of_unity() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal(200) + 1j * rng.standard_normal(200)
    for order in (1, 2, 5, 12):
        roots = np.exp(2j * np.pi * np.arange(order) / order)
        expected = np.abs(values[:, None] - roots).min(1)
        np.testing.assert_allclose(from_roots(values, order), expected, atol=1e-12)


def test_orders_of_tasks() -> None:
    assert [order_of(machine_of("sum", n)) for n in (2, 5, 6)] == [2, 5, 6]
    assert order_of(machine_of("parity", 2)) == 2
    assert order_of(machine_of("even_pair", 5)) == 1
    assert order_of(machine_of("mod_arith", 3)) == 1  # no symbol may be repeated
    # one symbol turns two states, another three
    swap = explored(
        (0, 0),
        2,
        lambda q, s: ((q[0] + 1) % 2, q[1]) if s == 0 else (q[0], (q[1] + 1) % 3),
        lambda q: q[0],
    )
    assert order_of(swap) == 6


def states_of(model: Any, count: int) -> tuple[SymbolReader, Tensor, Any, Tensor]:
    """States of a float64 copy after some random symbols, with one symbol more for each."""
    reader = SymbolReader(model.double())
    generator = torch.Generator().manual_seed(0)
    state = None
    for _ in range(5):
        _, state = reader.step(torch.randint(3, (count,), generator=generator), state)
    like = chosen(state, torch.zeros(1, dtype=torch.int64))
    return reader, flat(state), like, torch.randint(3, (count,), generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "elman", "lru", "s4d"])
def test_jacobians_are_those_of_automatic_gradients(name: str, layers: int) -> None:
    model = model_of(name, layers=layers, width=2 if name == "s4d" else 6)  # times 64 of its states
    reader, x, like, tokens = states_of(model, 4)
    found, after = jacobians(reader, x, tokens, like)
    for row in range(len(x)):

        def step(numbers: Tensor, row: int = row) -> Tensor:
            _, reached = reader.model(
                tokens[row : row + 1, None], unflat(numbers[None], like), read="last"
            )
            parts = []
            for layer in reached:
                for leaf in layer if isinstance(layer, tuple) else (layer,):
                    real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
                    parts.append(real.reshape(1, -1))
            return torch.cat(parts, 1)[0]

        exact = torch.autograd.functional.jacobian(step, x[row])
        torch.testing.assert_close(found[row], exact, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(after[row], step(x[row]).detach(), rtol=1e-12, atol=1e-12)


def test_products_follow_the_word() -> None:
    """tanh: the product of diag(1 - h^2) U along a word, and its norms, by hand."""
    machine = machine_of("sum", 3)
    model = model_of("rnn")
    found = growth(model, machine, lengths=(1, 2, 4))
    assert not isinstance(found, str)
    assert [one.symbol for one in found] == [0, 1, 2, None]

    from lrbench.diagnosis.dynamics import AFTER, STATES
    from lrbench.diagnosis.extraction import random_words

    network = model.mixers[0].network
    u, w = network.weight_hh_l0.double().detach(), network.weight_ih_l0.double().detach()
    b = (network.bias_ih_l0 + network.bias_hh_l0).double().detach()
    table = model.embedding.weight.double().detach()
    norms: dict[int, list[float]] = {1: [], 2: [], 4: []}
    radii: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for word in random_words(machine, STATES, AFTER, seed=0):
        h = torch.zeros(6, dtype=torch.float64)
        for symbol in word:
            h = torch.tanh(w @ table[symbol] + u @ h + b)
        product = torch.eye(6, dtype=torch.float64)
        for length in range(1, 5):
            h = torch.tanh(w @ table[1] + u @ h + b)
            product = (torch.diag(1 - h**2) @ u) @ product
            if length in norms:
                norms[length].append(float(torch.linalg.svdvals(product)[0]))
                radii[length].append(float(torch.linalg.eigvals(product).abs().max()))
    for place, length in enumerate((1, 2, 4)):
        # the model's own embedding is rounded to float32, and its products are float64
        assert found[1].norm[place] == pytest.approx(np.mean(norms[length]), rel=1e-5)
        assert found[1].largest_norm[place] == pytest.approx(max(norms[length]), rel=1e-5)
        assert found[1].radius[place] == pytest.approx(max(radii[length]), rel=1e-5)
    assert model.embedding.weight.dtype == torch.float32  # the model itself stays as it was


def test_what_cannot_be_repeated_has_shorter_words() -> None:
    """mod_arith: after a number comes an operator, so a symbol is read once."""
    found = growth(model_of("gru", 6, 3), machine_of("mod_arith", 3))
    assert not isinstance(found, str)
    assert {len(one.norm) for one in found if one.symbol is not None} == {1}
    assert len(found[-1].norm) == 4 and found[-1].symbol is None


def test_of_many_symbols_some_are_repeated() -> None:
    found = growth(model_of("rnn", 30, 30), machine_of("sum", 30), lengths=(1,))
    assert [one.symbol for one in found if not isinstance(one, str)] == [*range(16), None]


def test_what_is_not_followed_is_said() -> None:
    machine = machine_of("sum", 3)
    assert growth(model_of("transformer", width=8), machine) == "the state grows with the string"
    assert growth(model_of("rnn", width=400), machine) == (
        "a state of 400 numbers is more than 384"
    )
