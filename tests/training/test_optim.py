"""Schedules are pure functions of the update; optimisers are torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.config import OptimConfig
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.training.optim import by_rule, learning_rate, make_optimiser, set_learning_rate


def test_constant_rate_has_no_warm_up_by_default() -> None:
    assert [learning_rate(OptimConfig(lr=0.5), k, 10) for k in (1, 5, 10)] == [0.5, 0.5, 0.5]


def test_warm_up_is_linear_and_reaches_the_rate() -> None:
    config = OptimConfig(lr=1.0, warmup=4)
    assert [learning_rate(config, k, 10) for k in (1, 2, 4, 5)] == [0.25, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(("schedule", "half"), [("cosine", 0.5), ("linear", 0.5)])
def test_decay_starts_after_warm_up_and_ends_at_zero(schedule: str, half: float) -> None:
    config = OptimConfig(lr=1.0, warmup=2, schedule=schedule)
    assert learning_rate(config, 2, 12) == 1.0
    assert learning_rate(config, 7, 12) == pytest.approx(half)
    assert learning_rate(config, 12, 12) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_decay_ends_at_the_final_rate(schedule: str) -> None:
    config = OptimConfig(lr=1.0, warmup=2, schedule=schedule, final_lr=0.25)
    rates = [learning_rate(config, k, 12) for k in (2, 7, 12)]
    assert rates == pytest.approx([1.0, 0.625, 0.25])


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_updates_equal_the_textbook(name: str) -> None:
    """One step of Adam with L2, or decoupled, weight decay, by hand (Kingma & Ba; Loshchilov)."""
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    weight = model.weight
    torch.nn.init.constant_(weight, 2.0)
    config = OptimConfig(name=name, lr=0.1, weight_decay=0.5)
    optimiser = make_optimiser(config, model)
    set_learning_rate(optimiser, 0.2)
    weight.grad = torch.full_like(weight, 3.0)
    optimiser.step()
    gradient = 3.0 + (0.5 * 2.0 if name == "adam" else 0.0)
    before = 2.0 if name == "adam" else 2.0 * (1 - 0.2 * 0.5)
    assert weight.item() == pytest.approx(before - 0.2 * gradient / (abs(gradient) + 1e-8))


class Decaying(Mixer):
    """y = a u + b u with a slower, undecayed a."""

    def __init__(self, rules: dict[str, ParameterRule]) -> None:
        super().__init__(None, 1)
        self.a = nn.Parameter(torch.ones(1))
        self.b = nn.Parameter(torch.ones(1))
        self.fixed = nn.Parameter(torch.ones(1), requires_grad=False)
        self.rules = rules

    state_size = 0

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return self.rules

    def initial_state(self, batch: int) -> tuple[()]:
        return ()

    def forward(self, u: Tensor, state: Any = None, mode: str | None = None) -> tuple[Tensor, Any]:
        return (self.a + self.b) * u, ()


def test_a_mixers_own_rules_hold_for_its_parameters_alone() -> None:
    mixer = Decaying({"a": ParameterRule(lr=0.1, decay=False)})
    model = nn.Sequential(nn.Linear(1, 1), mixer)
    config = OptimConfig(name="adamw", lr=1.0, weight_decay=0.5)
    optimiser = make_optimiser(config, model)
    reported = [(g["lr"], g["weight_decay"], len(g["params"])) for g in optimiser.param_groups]
    assert reported == [(1.0, 0.5, 3), (0.1, 0.0, 1)]  # the fixed parameter is in neither
    set_learning_rate(optimiser, 0.01)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    assert mixer.a.item() == pytest.approx(1 - 0.01 * 0.1)  # Adam's first step is the rate itself
    assert mixer.b.item() == pytest.approx(1 * (1 - 0.01 * 0.5) - 0.01)


def test_multipliers_survive_a_checkpoint() -> None:
    model = Decaying({"a": ParameterRule(lr=0.1)})
    optimiser = make_optimiser(OptimConfig(), model)
    again = make_optimiser(OptimConfig(), model)
    again.load_state_dict(optimiser.state_dict())
    set_learning_rate(again, 1.0)
    assert [group["lr"] for group in again.param_groups] == [0.1, 1.0]


def test_a_rule_for_no_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody"):
        by_rule(Decaying({"nobody": ParameterRule()}))


def test_embeddings_alone_may_be_kept_from_decay() -> None:
    """One update without a gradient: decoupled decay is all that moves a weight."""
    for decayed in (True, False):
        model = nn.Sequential(nn.Embedding(3, 2), nn.LayerNorm(2), nn.Linear(2, 2))
        before = [weight.detach().clone() for weight in model.parameters()]
        config = OptimConfig("adamw", lr=0.1, weight_decay=0.5, decay_embeddings=decayed)
        optimiser = make_optimiser(config, model)
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        optimiser.step()
        shares = [0.95 if decayed else 1.0, *[0.95] * 4]
        for old, new, share in zip(before, model.parameters(), shares, strict=True):
            assert torch.allclose(new, share * old)
