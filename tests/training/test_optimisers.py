"""Ranger: RAdam and Lookahead by hand, checkpoints to the bit, schedules of others."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lrbench.config import OptimConfig
from lrbench.encoders.base import Encoder
from lrbench.mixers.base import ParameterRule
from lrbench.training.optim import make_optimiser, set_learning_rate
from lrbench.training.optimisers import Adam, AdamW, RAdam, Ranger


def by_hand(start: float, gradients: list[float], lr: float, decay: float) -> list[float]:
    """The published update of one number, in plain floats."""
    p, slow, m, v, path = start, start, 0.0, 0.0, []
    longest = 2 / (1 - 0.999) - 1
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rho = longest - 2 * t * 0.999**t / (1 - 0.999**t)
        p -= lr * decay * p
        if rho > 5:
            rectified = (rho - 4) * (rho - 2) * longest
            rectified /= (longest - 4) * (longest - 2) * rho
            step = lr * ((1 - 0.999**t) * rectified) ** 0.5 / (1 - 0.9**t)
            p -= step * m / (v**0.5 + 1e-8)
        else:
            p -= lr * m / (1 - 0.9**t)
        if t % 5 == 0:
            p = slow = 0.8 * p + 0.2 * slow
        path.append(p)
    return path


def test_updates_equal_the_published_ones() -> None:
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimiser = Ranger([weight], lr=0.1, weight_decay=0.5)
    gradients = [(-1) ** k * (1 + 0.3 * k) for k in range(17)]
    found = []
    for gradient in gradients:
        weight.grad = torch.full_like(weight, gradient)
        optimiser.step()
        found.append(weight.item())
    assert found == pytest.approx(by_hand(2.0, gradients, 0.1, 0.5), rel=1e-12)


def trained(model: nn.Module, optimiser: Ranger, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        optimiser.zero_grad()
        model(torch.randn(8, 3, generator=generator)).square().sum().backward()
        optimiser.step()


@pytest.mark.parametrize("cut", [3, 5, 12])
def test_resumed_bit_for_bit(cut: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    other = copy.deepcopy(model)
    optimiser = Ranger(model.parameters(), lr=0.05, weight_decay=0.01)
    trained(model, optimiser, range(cut))
    kept = copy.deepcopy((model.state_dict(), optimiser.state_dict()))
    trained(model, optimiser, range(cut, 23))
    again = Ranger(other.parameters(), lr=1.0)
    other.load_state_dict(kept[0])
    again.load_state_dict(kept[1])
    trained(other, again, range(cut, 23))
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_parameter_without_a_gradient_stays() -> None:
    moving, still = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimiser = Ranger([moving, still], lr=0.1, weight_decay=0.1)
    for _ in range(6):
        moving.grad = torch.ones(1)
        optimiser.step()
    assert still.item() == 1 and moving.item() < 1


class Slow(Encoder):
    """An encoder with a part that is trained at a rate of at most 1e-3."""

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.a = nn.Parameter(torch.ones(1))
        self.b = nn.Parameter(torch.ones(1))

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {"a": ParameterRule(cap=1e-3)}

    def forward(self, x, mask, generator=None):
        return x[:, 0] * self.a + self.b


@pytest.mark.parametrize(("rate", "capped"), [(1e-2, 1e-3), (1e-3, 1e-3), (1e-4, 1e-4)])
@pytest.mark.parametrize("name", ["ranger", "adamw"])
def test_a_cap_bounds_the_first_rate_and_schedules_scale_it(
    name: str, rate: float, capped: float
) -> None:
    config = OptimConfig(lr=rate, weight_decay=0.05)
    config.name = name  # the schema may not know it yet
    optimiser = make_optimiser(config, Slow())
    groups = {len(g["params"]): g for g in optimiser.param_groups}
    rates = [group["lr"] for group in optimiser.param_groups]
    assert rates == pytest.approx([capped, rate]) and len(groups) == 1
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.05, 0.05]
    set_learning_rate(optimiser, rate / 2)
    rates = [group["lr"] for group in optimiser.param_groups]
    assert rates == pytest.approx([capped / 2, rate / 2])


def test_plateau_schedules_drive_it() -> None:
    optimiser = make_optimiser_of_slow()
    plateau = ReduceLROnPlateau(optimiser, mode="max", factor=0.5, patience=2)
    for score in (0.5, 0.4, 0.4, 0.4):
        plateau.step(score)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([5e-4, 5e-3])


def make_optimiser_of_slow() -> torch.optim.Optimizer:
    config = OptimConfig(lr=1e-2)
    config.name = "ranger"
    return make_optimiser(config, Slow())


def test_closures_are_called_once_with_gradients() -> None:
    weight = nn.Parameter(torch.ones(1))
    optimiser = Ranger([weight], lr=0.1)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    loss = optimiser.step(closure)
    assert loss.item() == 1
    assert weight.item() < 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW), (RAdam, torch.optim.RAdam)],
)
def test_classes_of_torch_compute_what_they_do_there(
    ours: type[torch.optim.Optimizer], theirs: type[torch.optim.Optimizer]
) -> None:
    """To the bit, a checkpoint and frozen weights included."""
    results = []
    for kind in (ours, theirs):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        state = None
        for _ in range(2):
            optimiser = kind(model.parameters(), lr=0.05, weight_decay=0.1)
            if state is not None:
                optimiser.load_state_dict(state)
            for step in range(7):
                optimiser.zero_grad()
                out: torch.Tensor = model(torch.full((4, 3), 1.0 + step))
                out.square().sum().backward()
                optimiser.step()
            state = copy.deepcopy(optimiser.state_dict())
        results.append((model.weight, model.bias, state["state"][0]["exp_avg"]))
    for mine, other in zip(*results, strict=True):
        assert torch.equal(mine, other) and mine.requires_grad == other.requires_grad


def test_training_imports_no_compiler_of_torch(tmp_path: Path) -> None:
    """Its import takes longer than a short run: with each optimiser, alone and as a group."""
    program = """
import sys
from lrbench.cli import main
sizes = [f"protocol.{name}=8" for name in ("test_size", "look_size", "validation_size")]
sizes += ["protocol.max_steps=2", "protocol.look_every=1", "protocol.further_lengths=[43]"]
sizes += ["model.width=8", "model.layers=1", "output_dir=" + sys.argv[1]]
for choice in (["optim.name=adam", "trials=2"], ["optim.name=adamw"], ["optim.name=ranger"]):
    sys.argv = ["lrbench", "train", "task=parity", "model=blockdiag", *choice, *sizes]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    assert "torch.optim" in sys.modules and "torch._dynamo" not in sys.modules, choice
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert len(list(tmp_path.rglob("result.json"))) == 4
