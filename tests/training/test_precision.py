"""Rounding to bfloat16, emulated: where it happens, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.runs.train.validate import validated
from lrbench.training.precision import round_outputs, rounded

SMALL = [
    *("task=parity", "model=deltanet", "model.width=8", "model.mixer.heads=2", "model.layers=1"),
    *("protocol=walker2025_short", "protocol.batch_size=4", "protocol.train_lengths=[3,8]"),
]
PLAIN = [
    *(
        "task=group",
        "task.group=S3",
        "model.width=16",
        "model.layers=2",
        "protocol=walker2025_short",
    ),
    *("protocol.batch_size=4", "protocol.train_lengths=[3,8]", "protocol.precision=bfloat16"),
]


def made(*more: str) -> Config:
    return composed([*SMALL, *more])


def on_grid(x: torch.Tensor) -> bool:
    return torch.equal(x, x.bfloat16().to(x.dtype))


def test_numbers_are_the_nearest_of_eight_bits_and_gradients_pass() -> None:
    x = torch.tensor([1.0, 1 + 2**-9, 1 + 3 * 2**-9, -3.1415927], requires_grad=True)
    y = rounded(x)
    assert y.tolist() == [1.0, 1.0, 1 + 2**-7, -3.140625]  # a tie goes to the even one
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0] * 4


def test_weights_are_rounded_as_drawn_and_after_each_update() -> None:
    plain, low = LengthsTrial(made(), 0), LengthsTrial(made("protocol.precision=bfloat16"), 0)
    for mine, theirs in zip(low.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(mine, theirs.bfloat16().float())
    for _ in range(3):
        plain.update()
        low.update()
    assert all(on_grid(weight.detach()) for weight in low.model.parameters())
    assert not all(on_grid(weight.detach()) for weight in plain.model.parameters())


def test_linear_maps_return_rounded_numbers() -> None:
    layer = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(4, 5)
    first: list[torch.Tensor] = []
    layer[1].register_forward_hook(lambda module, inputs, output: first.append(inputs[0]))
    assert not on_grid(layer(x))
    round_outputs(layer)
    assert on_grid(layer(x)) and on_grid(first[1]) and not on_grid(first[0])


@pytest.mark.parametrize("model", ["blockdiag", "lrnn_diag", "lrnn_vanilla", "s4d", "rwkv4"])
def test_every_linear_map_is_called(model: str) -> None:
    """Kernels read weights, and what they made of them was not rounded."""
    trial = LengthsTrial(composed([f"model={model}", *PLAIN]), 0)
    maps = {n: m for n, m in trial.model.named_modules() if isinstance(m, nn.Linear)}
    called: dict[str, bool] = {}
    for name, layer in maps.items():
        layer.register_forward_hook(
            lambda module, inputs, output, name=name: called.update({name: on_grid(output)})
        )
    trial.update()
    assert called == dict.fromkeys(maps, True)


def test_a_model_that_calls_no_linear_maps_is_refused(tmp_path: Path) -> None:
    kinds = ("relative", "sinusoidal", "learnt", "randomised_relative")
    positions = [["model=transformer", f"model.mixer.positions={kind}"] for kind in kinds]
    models = [[f"model={model}"] for model in ("lmu", "lmu_gated", "lmu_parallel")]
    for words in (*models, *positions):
        with pytest.raises(UserError, match=r"leave out protocol\.precision"):
            validated(composed([*words, *PLAIN, f"output_dir={tmp_path}"]))
    validated(composed(["model=transformer", *PLAIN, f"output_dir={tmp_path}"]))  # rope


def test_a_change_below_half_a_step_is_lost() -> None:
    """What 2^-9 of a weight means: a rate too small for it trains nothing at all."""
    slow = ["optim.lr=1e-7", "optim.warmup=0", "optim.schedule=constant", "optim.final_lr=0"]
    low = LengthsTrial(made("protocol.precision=bfloat16", *slow), 0)
    before = {name: weight.detach().clone() for name, weight in low.model.named_parameters()}
    low.update()
    moved = [n for n, weight in low.model.named_parameters() if not torch.equal(weight, before[n])]
    large = {name for name, weight in before.items() if bool((weight.abs() > 1e-4).all())}
    assert large and not large & set(moved)


def test_another_precision_is_refused() -> None:
    with pytest.raises(UserError, match=r"protocol\.precision"):
        made("protocol.precision=float8")
