"""The second stage: what it adds to an update, and that runs resume and look as others do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.group.stacked import stackable
from lrbench.training.hardening import ramp
from lrbench.training.trial import unwatched
from tests.training.conftest import TINY

ANY_MODEL = [
    argument for argument in TINY if "model.mixer" not in argument and "backbone" not in argument
]


def hard(model: str = "rnn", *arguments: str) -> LengthTrial:
    """Return a trial of two layers, with both terms unless `words` say otherwise."""
    own = [f"model={model}", "model.layers=2", "optim.saturate=0.5", "model.mixer.noise=0.1"]
    chosen = dict(argument.split("=", 1) for argument in [*ANY_MODEL, *own, *arguments])
    return LengthTrial(composed([f"{key}={value}" for key, value in chosen.items()]), 0)


def test_the_ramp_ends_in_the_middle() -> None:
    assert [ramp(step, 10) for step in (1, 4, 5, 6, 10)] == [0.2, 0.8, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("model", ["rnn", "elman", "gru", "lstm", "gru_seed"])
def test_the_loss_grows_by_the_mean_of_one_minus_squares(model: str) -> None:
    plain = hard(model, "optim.saturate=0", "model.mixer.noise=0")
    trial = hard(model, "model.mixer.noise=0")
    loss, more = plain.update(), trial.update()
    fresh: Any = hard(model)
    read, squares = fresh.model.embedding(fresh.batch(1).tokens), []
    for mixer in fresh.model.mixers:
        read, _ = mixer(read)
        squares.append(1 - read.square().mean())
    expected = 0.2 * 0.5 * float(torch.stack(squares).mean().detach())
    assert float(more - loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("model", ["gru", "lstm"])
def test_the_loss_grows_by_what_gates_keep_beyond_a_fifth(model: str) -> None:
    """Against gates by the equations, a symbol at a time; and the term has a gradient."""
    terms = ["optim.saturate=0", "model.mixer.noise=0", "optim.forget=3"]
    loss = hard(model, "optim.saturate=0", "model.mixer.noise=0").update()
    trial, fresh = hard(model, *terms), hard(model, *terms)
    more, model_ = trial.update(), fresh.model
    read, beyond = model_.embedding(fresh.batch(1).tokens), []
    for mixer in model_.mixers:
        n = mixer.network.hidden_size
        w, m, b, c = mixer.weights()
        gates, outputs, state = [], [], mixer.initial_state(len(read))
        for symbol in read.unbind(1):
            h = state[0] if model == "lstm" else state
            gates.append(torch.sigmoid(symbol @ w.T + b + h @ m.T + c)[:, n : 2 * n])
            y, state = mixer.step(symbol, state)
            outputs.append(y)
        read = torch.stack(outputs, 1)
        beyond.append((torch.stack(gates) - 0.2).clamp(min=0).mean())
        end = mixer.keep_gate(read[:, -1:] * 0, state, read[:, -1:])  # goes on from a state
        h = state[0] if model == "lstm" else state
        torch.testing.assert_close(end[:, 0], torch.sigmoid(b + h @ m.T + c)[:, n : 2 * n])
    mean = torch.stack(beyond).mean()
    assert float(more - loss) == pytest.approx(0.2 * 3 * float(mean.detach()), rel=1e-4)
    with fresh.hardening.reading(0.5, fresh.generator):
        model_(fresh.batch(1).tokens)
    penalty = fresh.hardening.penalty(0.5)
    found = torch.autograd.grad(penalty, list(mixer.weights()))
    expected = torch.autograd.grad(0.5 * 3 * mean, list(mixer.weights()))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("model", ["rnn", "elman", "lstm"])
def test_a_resumed_run_ends_with_the_same_bits(model: str) -> None:
    whole, begun, resumed = hard(model), hard(model), hard(model)
    for _ in range(6):
        whole.update()
    for _ in range(2):
        begun.update()
    resumed.load(begun.state())
    for _ in range(4):
        resumed.update()
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    again = hard(model, "model.mixer.noise=0")
    for _ in range(6):
        again.update()
    pairs = zip(whole.model.parameters(), again.model.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)  # so there was noise


def test_looks_have_neither_noise_nor_a_draw() -> None:
    trial = hard()
    trial.update()
    before = trial.generator.get_state()
    looks = [trial.look(unwatched) for _ in range(2)]
    assert looks[0] == looks[1]
    assert torch.equal(trial.generator.get_state(), before)


def test_an_update_that_fails_leaves_no_noise_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = hard()

    def broken(*unused: object, **also: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(trial.model, "forward", broken)
    with pytest.raises(RuntimeError, match="broken"):
        trial.update()
    assert [mixer.noise for mixer in trial.hardening.noisy] == [None, None]
    assert [len(mixer._forward_hooks) for mixer in trial.hardening.saturating] == [0, 0]


def test_it_is_no_stack_of_trials() -> None:
    """A captured graph would repeat the ramp of the update that was captured."""
    plain = hard("elman", "optim.saturate=0", "model.mixer.noise=0")
    assert stackable(plain) == ""
    for off in ("optim.saturate=0", "model.mixer.noise=0"):
        assert "grow from update to update" in stackable(hard("elman", off))


def test_a_state_that_cannot_saturate_is_refused() -> None:
    message = r"optim\.saturate=0\.5 .*no state of such units\nmodels that have: elman, gru"
    with pytest.raises(UserError, match=message):
        LengthTrial(composed([*TINY, "optim.saturate=0.5"]), 0)
    with pytest.raises(UserError, match=message):
        hard("rnn", "model.mixer.nonlinearity=relu")
    with pytest.raises(UserError, match=r"optim\.forget=2 .*no such gate\n.*have: gru, lstm"):
        hard("rnn", "optim.forget=2")
