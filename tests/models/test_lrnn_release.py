"""The released code's backbone: sizes, what it reads out, and carried states."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lrbench.models.build import build_model, count_parameters
from lrbench.models.randomness import add_noise
from lrbench.schema import model_node


def built(name: str, layers: int, symbols: int, classes: int, seed: int = 0, **more: Any) -> Any:
    model = model_node(name)(layers=layers, **more)
    return build_model(SimpleNamespace(model=model), symbols, classes, seed)


@pytest.mark.parametrize(
    ("name", "layers", "symbols", "classes", "numbers"),
    [
        ("blockdiag_release", 1, 5, 5, 309_381),  # Sum(5)
        ("blockdiag_release", 1, 5, 2, 309_186),  # EvenPair(5)
        ("blockdiag_release", 3, 8, 5, 918_469),  # ModArith(5)
        ("blockdiag", 1, 5, 5, 50_885),
    ],
)
def test_parameter_counts(name: str, layers: int, symbols: int, classes: int, numbers: int) -> None:
    assert count_parameters(built(name, layers, symbols, classes)) == numbers


@pytest.fixture(params=["blockdiag", "blockdiag_release"])
def model(request: pytest.FixtureRequest) -> Any:
    return built(request.param, 2, 7, 5, width=16).double()


def tokens(length: int = 11) -> torch.Tensor:
    return torch.randint(7, (4, length), generator=torch.Generator().manual_seed(0))


def test_what_is_read_agrees(model: Any) -> None:
    everything, state = model(tokens())
    last, state_of_last = model(tokens(), read="last")
    nothing, state_of_none = model(tokens(), read="none")
    assert everything.shape == (4, 11, 5) and nothing is None
    torch.testing.assert_close(last, everything[:, -1])
    torch.testing.assert_close(state_of_last, state)
    torch.testing.assert_close(state_of_none, state)


def test_modes_agree(model: Any) -> None:
    wanted, _ = model(tokens(), mode="reference")
    for mode in ("sequential", "tree", None):
        torch.testing.assert_close(model(tokens(), mode=mode)[0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cut", [1, 5, 10])
def test_state_carries_across_a_split(model: Any, cut: int) -> None:
    first, state = model(tokens()[:, :cut])
    second, after = model(tokens()[:, cut:], state)
    whole, end = model(tokens())
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(after, end, rtol=1e-9, atol=1e-9)


def test_state_size_counts_every_layer(model: Any) -> None:
    _, state = model(tokens())
    assert model.state_size == sum(layer[0].numel() for layer in state) == 32


def test_symbols_give_what_embeddings_give(model: Any) -> None:
    """The table of the first layer is a short cut, not another model."""
    fast, _ = model(tokens())
    type(model.mixers[0]).takes_symbols, kept = False, type(model.mixers[0]).takes_symbols
    try:
        slow, _ = model(tokens())
    finally:
        type(model.mixers[0]).takes_symbols = kept
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)


def test_every_parameter_has_a_gradient(model: Any) -> None:
    logits, _ = model(tokens())
    logits.logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(5)
    first = built("blockdiag", 1, 5, 5, seed=3).state_dict()
    before = torch.get_rng_state()
    second = built("blockdiag", 1, 5, 5, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = built("blockdiag", 1, 5, 5, seed=4).state_dict()
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def noise_of(noise: float) -> Any:
    model = built("blockdiag", 1, 7, 5, width=16)
    model.config.noise = noise
    return model


def test_noise_is_for_training_only_and_comes_from_the_generator() -> None:
    quiet, noisy = (noise_of(noise) for noise in (0.0, 2.0))
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    with torch.no_grad():
        plain = quiet(tokens())[0]
        assert torch.equal(noisy(tokens())[0], plain)
        assert torch.equal(quiet(tokens(), generator=generators[0])[0], plain)
        first, second, third = (noisy(tokens(), generator=g)[0] for g in generators)
    generators[0].manual_seed(1)
    assert not torch.equal(first, plain)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


@pytest.mark.parametrize("batch", [1, 64, 65])
def test_noise_has_the_size_it_says_and_its_halves_mirror_each_other(batch: int) -> None:
    values = torch.full((batch, 40, 16), 7.0)
    add_noise(values, 3.0, torch.Generator().manual_seed(0))
    added, half = values - 7, (batch + 1) // 2
    assert added[:half].std().item() == pytest.approx(3.0, rel=0.1)
    torch.testing.assert_close(added[half:], -added[: batch - half], rtol=0, atol=1e-5)


def test_noise_changes_no_gradient_of_what_it_is_added_to() -> None:
    normal = torch.nn.LayerNorm(4).double()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 4, dtype=torch.float64)
    (plain,) = torch.autograd.grad((normal(x) * weight).sum(), x)
    noisy = normal(x)
    add_noise(noisy, 3.0, torch.Generator().manual_seed(0))
    assert torch.equal(torch.autograd.grad((noisy * weight).sum(), x)[0], plain)
