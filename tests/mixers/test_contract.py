"""What a mixer of the three-part form promises, on each built-in one and its main settings.

What every mixer promises is asked in tests/contract/test_run.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import embedding

from lrbench.mixers.base import LinearMixer, Mixer
from lrbench.registry import MIXERS
from lrbench.scan import ALGORITHMS

WIDTH, BATCH = 12, 3
# Blocks have the size whose loops other tests compile in double precision, too.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "blockdiag": ("blockdiag", {"block_size": 3, "hidden": 5}),
    "blockdiag linear": ("blockdiag", {"block_size": 3, "g": "linear", "values": "linear"}),
    "blockdiag unit": ("blockdiag", {"block_size": 3, "constraint": "column_unit", "p": 2.0}),
    "blockdiag centred": ("blockdiag", {"block_size": 3, "constraint": "max_column_centred"}),
    "blockdiag own size": ("blockdiag", {"block_size": 3, "blocks": 5, "learn_x0": False}),
    "blockdiag_release": ("blockdiag_release", {"block_size": 3}),
    "lrnn_diag": ("lrnn_diag", {"hidden": 5, "learn_x0": True}),
    "lrnn_diag signed": ("lrnn_diag", {"range": "tanh", "f": "linear", "state_size": 5}),
    "lrnn_diag complex": ("lrnn_diag", {"range": "complex", "state_size": 5}),
    "lrnn_diag unit": ("lrnn_diag", {"range": "unit", "phase": "free"}),
    "lrnn_vanilla": ("lrnn_vanilla", {}),
    "lru": ("lru", {}),
    "s5": ("s5", {}),
    "pdssm": ("pdssm", {}),
    "pdssm row": ("pdssm", {"orientation": "row"}),
    "sdssm": ("sdssm", {}),
    "slice": ("slice", {"block_size": 4}),
}


def make(name: str, seed: int = 0) -> Mixer:
    kind, options = SETTINGS[name]
    entry = MIXERS.get(kind)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mixer: Mixer = entry.cls(entry.config(**options), WIDTH).double()
    return mixer


@pytest.fixture(params=SETTINGS)
def mixer(request: pytest.FixtureRequest) -> Mixer:
    return make(request.param)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def gradients(mixer: Mixer, y: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    trained = [p for p in mixer.parameters() if p.requires_grad]
    return torch.autograd.grad((y * weight).sum(), [*inputs, *trained])


def test_all_built_in_mixers_of_this_form_are_here() -> None:
    entries = [MIXERS.get(name) for name in MIXERS]
    linear = [e.name for e in entries if e.builtin and issubclass(e.cls, LinearMixer)]
    assert {kind for kind, _ in SETTINGS.values()} == set(linear)


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_modes_agree(mixer: Mixer, length: int) -> None:
    assert set(mixer.modes) == set(ALGORITHMS)
    u = draw(BATCH, length, WIDTH).requires_grad_()
    wanted, state = mixer(u, mode="reference")
    slopes = gradients(mixer, wanted, u)
    assert wanted.shape == u.shape
    for mode in (*mixer.modes, None):
        y, after = mixer(u, mode=mode)
        close((y, after), (wanted, state))
        close(gradients(mixer, y, u), slopes)


def test_a_step_loop_is_the_whole(mixer: Mixer) -> None:
    u = draw(BATCH, 9, WIDTH)
    state, steps = mixer.initial_state(BATCH), []
    for k in range(9):
        y, state = mixer.step(u[:, k], state)
        steps.append(y)
    close((torch.stack(steps, 1), state), mixer(u))


@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=15)
@given(length=st.integers(2, 15), data=st.data())
def test_state_carries_across_any_split(name: str, length: int, data: st.DataObject) -> None:
    mixer = make(name)
    cut = data.draw(st.integers(1, length - 1))
    mode = data.draw(st.sampled_from(mixer.modes))
    u = draw(BATCH, length, WIDTH, seed=length)
    with torch.no_grad():
        first, state = mixer(u[:, :cut], mode=mode)
        second, after = mixer(u[:, cut:], state, mode)
        close((torch.cat([first, second], 1), after), mixer(u))


def test_gradients_flow_through_a_carried_state(mixer: Mixer) -> None:
    u = draw(BATCH, 8, WIDTH).requires_grad_()
    first, state = mixer(u[:, :3])
    second, _ = mixer(u[:, 3:], state)
    whole, _ = mixer(u)
    close(gradients(mixer, torch.cat([first, second], 1), u), gradients(mixer, whole, u))


def test_outputs_do_not_see_what_comes_later(mixer: Mixer) -> None:
    u = draw(BATCH, 10, WIDTH)
    changed = u.clone()
    changed[:, 6:] += 1
    for mode in mixer.modes:
        before, after = mixer(u, mode=mode)[0], mixer(changed, mode=mode)[0]
        close(before[:, :6], after[:, :6])
        assert (before[:, 6] - after[:, 6]).abs().max() > 1e-6


def test_strings_of_a_batch_do_not_mix(mixer: Mixer) -> None:
    u = draw(BATCH, 6, WIDTH)
    close(torch.cat([mixer(row[None])[0] for row in u]), mixer(u)[0])


@pytest.mark.parametrize("symbols", [1, 5, 40])
def test_symbols_and_their_table_equal_the_inputs_written_out(mixer: Mixer, symbols: int) -> None:
    assert isinstance(mixer, LinearMixer)
    table = draw(symbols, WIDTH).requires_grad_()
    index = torch.randint(symbols, (BATCH, 9), generator=torch.Generator().manual_seed(1))
    wanted, state = mixer(embedding(index, table), mode="reference")
    slopes = gradients(mixer, wanted, table)
    for mode in (*mixer.modes, None):
        y, after = mixer(table, mode=mode, index=index)
        close((y, after), (wanted, state))
        close(gradients(mixer, y, table), slopes)


def test_state_does_not_grow_with_length(mixer: Mixer) -> None:
    for length in (1, 30):
        _, state = mixer(draw(2, length, WIDTH))
        parts, first = (
            one if isinstance(one, tuple) else (one,) for one in (state, mixer.initial_state(1))
        )
        assert all(part.shape[0] == 2 for part in parts)
        numbers = [part[0].numel() * (2 if part.is_complex() else 1) for part in parts]
        assert sum(numbers) == mixer.state_size
        assert [part[0].numel() for part in parts] == [part[0].numel() for part in first]


def test_double_backward_is_refused_not_wrong(mixer: Mixer) -> None:
    u = draw(1, 3, WIDTH).requires_grad_()
    (slope,) = torch.autograd.grad(mixer(u)[0].square().sum(), u, create_graph=True)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.autograd.grad(slope.sum(), u)
