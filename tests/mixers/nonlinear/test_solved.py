"""Solved layers: values and gradients of the loop, whatever iterates; what they tell of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lrbench.mixers.base import Mixer
from lrbench.registry import MIXERS

SOLVED = [name for name in MIXERS.names() if name.endswith("_solve")]
WIDTH, LENGTH, BATCH = 6, 11, 3
EXACT = {"atol": 0.0, "rtol": 0.0}


def make(name: str, dtype: torch.dtype = torch.float64, **settings: Any) -> Mixer:
    entry = MIXERS.get(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer: Mixer = entry.cls(entry.config(**settings), WIDTH).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter *= 2
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_names_are_there() -> None:
    elman = [f"elman_{name}_solve" for name in ("newton", "plain", "quasi", "taylor")]
    assert sorted(SOLVED) == [*elman, "gru_newton_solve", "gru_plain_solve"]


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("algorithm", ["auto", "chunked"])
def test_value_and_gradient_are_the_loops(name: str, algorithm: str) -> None:
    mixer = make(name, algorithm=algorithm, **EXACT)
    u, state = draw(BATCH, LENGTH, WIDTH).requires_grad_(), draw(BATCH, WIDTH, seed=1)
    leaves = [u, state.requires_grad_(), *mixer.parameters()]
    upstream = draw(BATCH, LENGTH, WIDTH, seed=2)
    results = []
    for mode in ("solve", "sequential"):
        y, last = mixer(u, state, mode)
        found = torch.autograd.grad((y * upstream).sum() + last.sum(), leaves)
        results.append((y, last, *found))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["elman_newton_solve", "gru_plain_solve"])
def test_the_implicit_gradient_passes_gradcheck(name: str) -> None:
    mixer = make(name, units=3, **EXACT)
    u, state = draw(2, 4, WIDTH).requires_grad_(), draw(2, 3, seed=1).requires_grad_()
    assert gradcheck(lambda u, state: mixer(u, state, "solve")[0], [u, state])


def test_default_tolerances_are_close_in_single() -> None:
    u = draw(BATCH, 40, WIDTH).float()
    for name in SOLVED:
        mixer = make(name, torch.float32)
        y, expected = mixer(u, None, "solve")[0], mixer(u, None, "sequential")[0]
        torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-3)


def test_a_cap_ends_it_and_is_reported_of() -> None:
    mixer = make("elman_plain_solve", max_iterations=2)
    u = draw(BATCH, LENGTH, WIDTH).requires_grad_()
    mixer(u, None, "solve")[0].sum().backward()
    reported = mixer.telemetry()
    assert reported == {"iterations": (2, 1), "converged": (0, 1)}
    assert bool(torch.isfinite(u.grad).all()) and bool(u.grad.any())
    assert mixer.telemetry()["iterations"] == (0, 0)
    with torch.no_grad():
        mixer(u, None, "solve")
    assert mixer.telemetry()["iterations"] == (0, 0)  # only of training


def test_reading_on_a_cpu_is_a_loop() -> None:
    mixer, u = make("elman_plain_solve", max_iterations=1), draw(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        assert torch.equal(mixer(u)[0], mixer(u, None, "sequential")[0])
    assert not torch.equal(mixer(u)[0], mixer(u, None, "sequential")[0])


@pytest.mark.parametrize(
    ("setting", "value"), [("atol", -1.0), ("max_iterations", 0), ("algorithm", "fast")]
)
def test_bad_settings_are_reported(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"model.mixer.{setting}"):
        make("elman_newton_solve", **{setting: value})
