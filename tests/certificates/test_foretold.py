"""Foretold accuracy: moments against all strings, accuracy against random ones."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from lrbench.certificates.foretold import (
    AffineSteps,
    Foretold,
    Moments,
    affine_steps,
    foretell,
)
from lrbench.certificates.reader import SymbolReader, flat
from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.registry import TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.tasks.base import Task


def task_of(name: str, modulus: int) -> Task:
    return make_task(TASKS.get(name).config(modulus=modulus))


def model_of(name: str, symbols: int, classes: int, seed: int = 0, **settings: Any) -> Any:
    node = model_node(name)(width=8, **settings)
    return build_model(Config(model=node), symbols, classes, seed=seed).eval()


@pytest.mark.parametrize(("name", "length"), [("sum", 5), ("even_pair", 5), ("mod_arith", 5)])
def test_moments_are_those_of_all_strings(name: str, length: int) -> None:
    """Every string of a length with its probability, against the recursion; float64."""
    task = task_of(name, 3)
    machine = task.machine()
    assert machine is not None
    rng = np.random.default_rng(0)
    symbols, size = machine.symbols, 4
    steps = AffineSteps(
        rng.standard_normal((symbols, size, size)) * 0.7,
        rng.standard_normal((symbols, size)),
        rng.standard_normal(size),
        None,
    )
    moments = Moments.of(machine, steps.start)
    for _ in range(length):
        moments = moments.after(steps, machine)
    expected = Moments.of(machine, steps.start)
    for part in (expected.p, expected.m, expected.c):
        part[:] = 0
    for word in product(range(symbols), repeat=length):
        state, chance, x = machine.start, 1.0, steps.start
        for symbol in word:
            edges = machine.delta[state]
            if edges[symbol] is None:
                break
            chance /= sum(to is not None for to in edges)
            state = edges[symbol]  # type: ignore[assignment]
            x = steps.matrices[symbol] @ x + steps.offsets[symbol]
        else:
            expected.p[state] += chance
            expected.m[state] += chance * x
            expected.c[state] += chance * np.outer(x, x)
    np.testing.assert_allclose(moments.p, expected.p, atol=1e-12)
    np.testing.assert_allclose(moments.m, expected.m, atol=1e-12)
    np.testing.assert_allclose(moments.c, expected.c, atol=1e-11)
    assert moments.p.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["blockdiag", "lru", "lrnn_diag", "s4d", "lrnn_vanilla"])
def test_linear_models_are_read_off(name: str) -> None:
    """A string walked by the maps ends where the model itself ends."""
    model = model_of(name, 3, 3)
    reader = SymbolReader(model)
    steps = affine_steps(reader, 3)
    assert not isinstance(steps, str), steps
    word = torch.randint(3, (1, 12), generator=torch.Generator().manual_seed(1))
    x = steps.start
    for symbol in word[0].tolist():
        x = steps.matrices[symbol] @ x + steps.offsets[symbol]
    with torch.no_grad():
        _, state = model(word)
    reached = flat(state)[0].double().numpy()
    np.testing.assert_allclose(x, reached, rtol=0, atol=1e-4 * (1 + np.abs(reached).max()))


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("rnn", {}, "not affine"),
        ("gru", {}, "not affine"),
        ("transformer", {}, "grows with the string"),
        ("blockdiag", {"layers": 2}, "2 layers carry a state"),
    ],
)
def test_what_cannot_be_foretold(name: str, settings: dict[str, Any], why: str) -> None:
    machine = task_of("sum", 3).machine()
    assert machine is not None
    found = foretell(model_of(name, 3, 3, **settings), machine)
    assert isinstance(found, str) and why in found


def test_accuracy_is_foretold_as_it_is_measured() -> None:
    """A rotation a little off: right at first, and worse with every symbol.

    Two numbers turn by 2 pi (1/3 + s) for each one in the string; the head reads their angle.
    """
    task = task_of("sum", 3)
    machine = task.machine()
    assert machine is not None

    class Turning(torch.nn.Module):
        state_size = 2

        def __init__(self, error: float) -> None:
            super().__init__()
            angles = torch.arange(3) * (2 * torch.pi / 3 + error)
            c, s = angles.cos(), angles.sin()
            self.turns = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
            directions = torch.arange(3) * 2 * torch.pi / 3
            self.head = torch.stack([directions.cos(), directions.sin()], -1)

        @property
        def stateful(self) -> list[Any]:
            return [self]

        def initial_state(self, batch: int) -> torch.Tensor:
            return torch.tensor([[1.0, 0.0]]).repeat(batch, 1)

        def forward(self, tokens: torch.Tensor, state: Any = None, read: str = "all") -> Any:
            x = self.initial_state(len(tokens)) if state is None else state[0]
            for place in range(tokens.shape[1]):
                x = (self.turns[tokens[:, place]] @ x[..., None])[..., 0]
            return x @ self.head.T, [x]

    model = Turning(0.004)
    found = foretell(model, machine, longest=500)
    assert isinstance(found, Foretold)
    assert found.horizon is not None and found.first_below is not None
    # the angle is off by 0.004 a symbol on average; an answer changes at pi / 3
    assert found.horizon < 1.0472 / 0.004 <= found.first_below * 1.2
    for length, foretold in found.accuracies.items():
        batch = task.sample(task.stream(0, "test", length), 0, 2000, length, "cpu")
        logits, _ = model(batch.tokens)
        measured = float((logits.argmax(-1) == batch.targets[:, -1]).double().mean())
        assert foretold == pytest.approx(measured, abs=0.05)
