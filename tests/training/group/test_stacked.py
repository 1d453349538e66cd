"""A stack of trials makes the updates that each of them would make alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import MIXERS
from lrbench.training.group.stacked import Stacked, clip_each, stackable

Make = Callable[..., Config]

CASES = {
    "blockdiag": (),
    "noise, clipping, decay": (
        *("model.backbone.noise=0.5", "optim.name=adamw", "optim.clip=0.05"),
        *("optim.weight_decay=0.1", "optim.schedule=cosine", "optim.warmup=3"),
    ),
    "two layers": ("model.layers=2",),
}
SOME = ("lru", "s5", "s4d", "lrnn_diag", "rwkv4", "rwkv7", "gated_deltaproduct", "transformer")


def trials(tiny: Make, *arguments: str, count: int = 3, double: bool = False) -> list[LengthTrial]:
    made = [
        LengthTrial(tiny("protocol.max_steps=20", "optim.lr=1e-3", *arguments), k)
        for k in range(count)
    ]
    for trial in made if double else ():
        trial.model.double()
    return made


def assert_equal(stacked: list[LengthTrial], alone: list[LengthTrial], tolerance: float) -> None:
    for one, other in zip(stacked, alone, strict=True):
        assert one.step == other.step
        assert one.take_loss() == pytest.approx(other.take_loss(), rel=tolerance)
        for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-4), (True, 1e-9)])
def test_eight_updates(
    tiny: Make, arguments: tuple[str, ...], double: bool, tolerance: float
) -> None:
    together, alone = (trials(tiny, *arguments, double=double) for _ in range(2))
    stack = Stacked(together)
    for _ in range(8):
        stack.update()
        for trial in alone:
            trial.update()
    assert_equal(together, alone, tolerance)


@pytest.mark.parametrize("model", SOME)
def test_other_models(tiny: Make, model: str) -> None:
    from lrbench.cli.hydra.compose import composed

    arguments = [
        *("task=sum", f"model={model}", "model.width=8", "protocol.train_length=6"),
        *("protocol.batch_size=4", "protocol.max_steps=20"),
    ]
    together, alone = (
        [LengthTrial(composed(arguments), seed) for seed in range(2)] for _ in range(2)
    )
    assert stackable(together[0]) == ""
    for trial in (*together, *alone):
        trial.model.double()
    stack = Stacked(together)
    for _ in range(4):
        stack.update()
        for trial in alone:
            trial.update()
    assert_equal(together, alone, 1e-9)
    for one, other in zip(together, alone, strict=True):  # a parameter may have no state
        ours, theirs = (trial.state()["optimiser"]["state"] for trial in (one, other))
        assert ours.keys() == theirs.keys()


def test_a_member_that_leaves_takes_its_own(tiny: Make) -> None:
    together, alone = trials(tiny, double=True), trials(tiny, double=True)
    stack = Stacked(together)
    for _ in range(3):
        stack.update()
    stack.dissolve()
    rest = Stacked(together[1:])
    for _ in range(4):
        rest.update()
    together[0].update()
    for trial, updates in zip(alone, (4, 7, 7), strict=True):
        for _ in range(updates):
            trial.update()
    assert_equal(together, alone, 1e-9)


def test_checkpoints_of_a_member_are_those_of_a_single_trial(tiny: Make) -> None:
    together, alone = trials(tiny, double=True), trials(tiny, double=True)
    stack = Stacked(together)
    for _ in range(5):
        stack.update()
    for trial in alone:
        for _ in range(5):
            trial.update()
    state = together[1].state()
    assert state["optimiser"]["param_groups"] == alone[1].state()["optimiser"]["param_groups"]
    resumed = LengthTrial(together[1].config, 1)
    resumed.model.double()
    resumed.load(state)
    resumed.update()
    alone[1].update()
    assert_equal([resumed], [alone[1]], 1e-9)


def test_norms_are_those_of_each_member() -> None:
    weights = [torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 5, requires_grad=True)]
    sum((w.square().sum() for w in weights), torch.zeros(())).backward()
    expected = []
    for k in range(2):
        mine = [w.detach()[k].clone().requires_grad_() for w in weights]
        for one, w in zip(mine, weights, strict=True):
            assert w.grad is not None
            one.grad = w.grad[k].clone()
        torch.nn.utils.clip_grad_norm_(mine, 0.7)
        expected.append([one.grad for one in mine])
    clip_each(weights, 0.7)
    for k in range(2):
        for w, gradient in zip(weights, expected[k], strict=True):
            assert w.grad is not None
            torch.testing.assert_close(w.grad[k], gradient)


def test_what_cannot_be_stacked_says_why(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = LengthTrial(tiny(), 0)
    assert stackable(trial) == ""
    monkeypatch.setattr(type(trial.model.mixers[0]), "vmap", False)  # type: ignore[index]
    assert "cannot be evaluated for several" in stackable(trial)


def test_what_waits_for_its_numbers_or_is_one_call_is_not_stacked() -> None:
    """Solutions end when no number changes; torch's own networks are one call of a library."""
    entries = {name: MIXERS.get(name).cls for name in MIXERS.names() if MIXERS.get(name).builtin}
    solved = {name for name, cls in entries.items() if "solve" in cls.modes}
    alone = {name for name, cls in entries.items() if not cls.vmap}
    assert alone == solved | {"rnn", "lstm", "gru", "foreign"} and len(solved) == 6
