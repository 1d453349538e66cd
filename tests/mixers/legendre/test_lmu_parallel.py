"""The parallel Legendre memory unit is Eq. 18-20 in every mode, in pieces and at the end."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.legendre import delay_readout
from lrbench.mixers.legendre.delay_modes import CHUNK, MODES, STEPS, TILE
from lrbench.mixers.legendre.lmu_parallel import DelayMixer, LMUParallel, LMUParallelConfig
from lrbench.mixers.legendre.nonlinearity import apply

WIDTH, BATCH = 4, 3
LONG = 150  # more than one piece of every mode
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"order": 5, "theta": 8.0},
    "channels": {"order": 4, "theta": 6.0, "channels": 3, "outputs": 7, "f1": "tanh"},
    "averages": {"order": 1, "theta": 9.0, "channels": 4, "f2": "identity"},
    "sigmoid": {"order": 3, "theta": 3.0, "channels": 2, "f1": "relu", "f2": "sigmoid"},
}


def make(**settings: Any) -> LMUParallel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LMUParallel(LMUParallelConfig(**settings), WIDTH).double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_equations(mixer: DelayMixer, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return (o, M_n) by Eq. 18-20, one position at a time."""
    a, b = mixer.network.matrices(x)
    outputs = []
    for k in range(x.shape[1]):
        u = mixer.encode(x[:, k])
        state = torch.einsum("ij,bcj->bci", a, state) + u[:, :, None] * b
        z = state.flatten(1) @ mixer.memory.weight.T + mixer.skip(x[:, k])
        outputs.append(apply(mixer.f2, z))
    return torch.stack(outputs, 1), state


def gradients(mixer: DelayMixer, result: tuple[Tensor, Tensor], *inputs: Tensor) -> list[Tensor]:
    total = sum((t * torch.linspace(-1, 1, t.numel()).to(t).view(t.shape)).sum() for t in result)
    leaves = [*inputs, *mixer.parameters()]
    return list(torch.autograd.grad(total, leaves, materialize_grads=True))


def close(ours: Any, theirs: Any, within: float = 1e-9) -> None:
    torch.testing.assert_close(ours, theirs, rtol=within, atol=within)


def test_a_long_string_has_several_pieces() -> None:
    assert max(CHUNK, STEPS, TILE) < LONG and set(MODES) == set(LMUParallel.modes)


@pytest.mark.slow
@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_mode_is_the_equations(settings: dict[str, Any], mode: str, carried: bool) -> None:
    mixer = make(**settings)
    for length in (1, 7, LONG):
        x = draw(BATCH, length, WIDTH).requires_grad_()
        start = mixer.initial_state(BATCH)
        if carried:
            start = draw(*start.shape, seed=1).requires_grad_()
        leaves = (x, start) if carried else (x,)
        wanted = by_equations(mixer, x, start)
        found = mixer(x, start if carried else None, mode)
        close(found, wanted)
        close(gradients(mixer, found, *leaves), gradients(mixer, wanted, *leaves))


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_final_is_the_last_position_of_the_transform(
    settings: dict[str, Any], carried: bool
) -> None:
    mixer = make(**settings)
    x = draw(BATCH, 61, WIDTH).requires_grad_()
    state = draw(*mixer.initial_state(BATCH).shape, seed=1).requires_grad_() if carried else None
    leaves = (x,) if state is None else (x, state)
    y, after = mixer(x, state, "fft")
    wanted = y[:, -1], after
    slopes = gradients(mixer, wanted, *leaves)
    for mode in (None, "final", *MODES):
        found = mixer.last(x, state, mode)
        close(found, wanted)
        close(gradients(mixer, found, *leaves), slopes)


def test_few_strings_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer = make(**SETTINGS["channels"])
    x = draw(5, 40, WIDTH).requires_grad_()
    for mode in MODES:
        whole = mixer(x, None, mode)
        slopes = gradients(mixer, whole, x)
        for numbers in (1, 2 * 12 * 64):
            monkeypatch.setattr(delay_readout, "NUMBERS", numbers)
            found = mixer(x, None, mode)
            close(found, whole)
            close(gradients(mixer, found, x), slopes)
        monkeypatch.undo()


@pytest.mark.parametrize("mode", MODES)
def test_pieces_of_any_length_carry_the_state(mode: str) -> None:
    mixer = make(**SETTINGS["channels"])
    x = draw(BATCH, 90, WIDTH)
    whole, last = mixer(x)
    state, parts = None, []
    for piece in x.split([1, 34, 5, 33, 17], 1):
        y, state = mixer(piece, state, mode)
        parts.append(y)
    close((torch.cat(parts, 1), state), (whole, last))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fft", "chunk", "matmul"])
def test_single_precision_at_the_size_of_psmnist(mode: str) -> None:
    torch.manual_seed(0)
    mixer = LMUParallel(LMUParallelConfig(order=468, theta=784, outputs=8), 1)
    x = torch.randn(2, 784, 1)
    with torch.no_grad():
        slow, state = mixer(x, None, "lti")
        fast, other = mixer(x, None, mode)
        exact, _ = copy.deepcopy(mixer).double()(x.double(), None, "lti")
    torch.testing.assert_close((fast, other), (slow, state), rtol=0, atol=1e-4)
    torch.testing.assert_close(fast.double(), exact, rtol=0, atol=1e-4)


def test_modes_agree_after_a_cast_to_double() -> None:
    torch.manual_seed(0)
    mixer = LMUParallel(LMUParallelConfig(order=40, theta=50), WIDTH)
    x = draw(2, 129, WIDTH)
    mixer(x.float())  # constants in float32 have been made and kept
    mixer = mixer.double()
    wanted = mixer(x, None, "lti")
    for mode in MODES:
        close(mixer(x, None, mode), wanted, 1e-8 if mode == "fft" else 1e-12)


@pytest.mark.parametrize(
    ("order", "theta", "outputs", "head", "counts"),
    [
        (468, 784, 346, [torch.nn.Linear(346, 10)], (162_622, 166_092)),
        (40, 50, 140, [torch.nn.Linear(140, 80), torch.nn.Linear(80, 1)], (5_882, 17_243)),
    ],
    ids=["psmnist", "mackey_glass"],
)
def test_parameter_counts_of_the_paper(
    order: int, theta: float, outputs: int, head: list[torch.nn.Module], counts: tuple[int, int]
) -> None:
    with torch.device("meta"):
        mixer = LMUParallel(LMUParallelConfig(order=order, theta=theta, outputs=outputs), 1)
    numbers = [sum(p.numel() for p in module.parameters()) for module in (mixer, *head)]
    assert (numbers[0], sum(numbers)) == counts
    assert (mixer.out_width, mixer.state_size) == (outputs, order)


def test_memory_of_the_forward_does_not_hold_the_states() -> None:
    mixer = make(order=40, theta=50.0, outputs=1)
    x = draw(8, 500, WIDTH).requires_grad_()
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mixer(x)
    assert max(tensor.numel() for tensor in kept) < 8 * 500 * 40 / 2


def test_weights_start_as_kerass_do() -> None:
    mixer = make(order=30, theta=40.0, outputs=20)
    limit = (6 / (30 + 20)) ** 0.5
    assert 0.95 * limit < float(mixer.memory.weight.detach().abs().max()) <= limit
    assert not mixer.skip.bias.any() and not mixer.encoder.bias.any()
    assert mixer.memory.bias is None and not list(mixer.buffers())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": 0}, "mixer.order must be at least 1"),
        ({"theta": 0.5}, "mixer.theta must be at least 1"),
        ({"channels": 0}, "mixer.channels must be at least 1"),
        ({"outputs": 0}, "mixer.outputs must be at least 1"),
        ({"f1": "sine"}, "mixer.f1 must be one of identity, relu, tanh, sigmoid"),
        ({"f2": "gelu"}, "mixer.f2 must be one of identity, relu, tanh, sigmoid"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LMUParallelConfig(**wrong)
