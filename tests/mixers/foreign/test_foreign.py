"""A torch module as a mixer: what it computes, and what is refused before the first update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.contract import run_contract
from lrbench.errors import UserError
from lrbench.mixers.foreign.foreign import ForeignMixer
from lrbench.mixers.nonlinear.cells import GruConfig, GruMixer
from lrbench.models.build import build_model
from lrbench.runs.train.job import run_cell
from lrbench.schema import model_node
from tests.named_layers import named as torch_gru

from .conftest import Named

WIDTH = 8


def inputs(length: int = 9) -> torch.Tensor:
    return torch.randn(3, length, WIDTH, generator=torch.Generator().manual_seed(0))


def test_torch_gru_is_our_gru_with_its_weights() -> None:
    node = torch_gru(model_node("foreign")())
    theirs, ours = ForeignMixer(node.mixer, WIDTH), GruMixer(GruConfig(), WIDTH)
    theirs.layer.load_state_dict(ours.network.state_dict())
    u = inputs().requires_grad_()
    expected, _ = ours(u)
    y, kept = theirs(u)
    assert torch.equal(y, expected) and torch.equal(kept, u)
    found, slope = (torch.autograd.grad(one.square().sum(), u)[0] for one in (y, expected))
    assert torch.equal(found, slope)
    state: Any = theirs.initial_state(3)
    for k in range(9):  # a step reads the string again: by another sum, so not to the bit
        step, state = theirs.step(u[:, k], state)
        torch.testing.assert_close(step, expected[:, k])


def test_each_layer_of_a_stack_knows_its_place(named: Named) -> None:
    node = model_node("foreign")(width=WIDTH, layers=3, mixer=named("Recurrent"))
    model: Any = build_model(Config(model=node), 5, 3, seed=0)
    assert [mixer.layer.layer_idx for mixer in model.mixers] == [0, 1, 2]
    assert model.state_size is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Backwards", "is not causal: outputs of the first 4 of 6 inputs"),
        ("Shorter", r"made \(2, 5, 8\) float32 on cpu of \(2, 6, 8\) float32 on cpu"),
        ("Double", "float64 on cpu of"),
        ("Dropping", "another output for the same input the second time"),
        ("Remembering", "another output for the same input the second time"),
        ("BatchSecond", r"mixes the strings of a batch: .*\n.*batch_first: true"),
    ],
)
def test_what_is_refused_before_the_first_update(named: Named, name: str, message: str) -> None:
    mixer = ForeignMixer(named(name), WIDTH)
    with pytest.raises(UserError, match=message):
        mixer.outputs(inputs())


def test_a_constructor_that_fails_is_told_with_what_it_was_given(named: Named) -> None:
    with pytest.raises(UserError, match=r"Failing\(dim=8\) cannot be made: .*dim must be prime"):
        ForeignMixer(named("Failing"), WIDTH)


def test_layers_that_share_something_stand_alone(named: Named) -> None:
    mixer = ForeignMixer(named("Sharing"), WIDTH)
    mixer.place(0, 1)
    with pytest.raises(UserError, match=r"hands v_first .*(?s:.*)model.layers=1"):
        mixer.place(0, 2)


def failures(*words: str) -> set[str]:
    findings = run_contract("foreign", words)
    return {finding.name for finding in findings if finding.passed is False}


@pytest.mark.slow
def test_the_contract_sees_what_is_wrong(named: Named) -> None:
    named("Recurrent")
    target = "model.mixer.target=layers_here."
    assert failures(target + "Recurrent", "model.mixer.args={hidden: 5}") == set()
    assert "causality" in failures(target + "Backwards")
    assert failures(target + "Dropping") >= {"determinism", "training", "randomness"}
    assert "shape, dtype" in failures(target + "Shorter")


@pytest.mark.parametrize("name", ["Backwards", "BatchSecond", "Shorter", "Dropping"])
def test_a_refused_layer_leaves_no_run(named: Named, name: str) -> None:
    named(name)
    words = [
        "task=sum",
        "model=foreign",
        f"model.mixer.target=layers_here.{name}",
        "output_dir=runs",
    ]
    with pytest.raises(UserError, match=f"layers_here.{name} "):
        run_cell(composed(words))
    assert not Path("runs").exists()


def test_what_cannot_compute_in_float64_says_so(named: Named) -> None:
    assert ForeignMixer(named("Recurrent"), WIDTH).dtypes == (torch.float32, torch.float64)
    assert ForeignMixer(named("InSingle"), WIDTH).dtypes == (torch.float32,)
    assert failures("model.mixer.target=layers_here.InSingle") == set()
