"""What symbols alone are answered with says what strings are: responses equal scans."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.time_invariant import LARGEST_KERNEL, TimeInvariantMixer
from lrbench.registry import MIXERS

WIDTH, SYMBOLS, BATCH = 6, 4, 3
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "lru": ("lru", {"state_size": 5}),
    "s5": ("s5", {"state_size": 8, "blocks": 2}),
    "lrnn_vanilla": ("lrnn_vanilla", {}),
    "lrnn_vanilla of its own size": ("lrnn_vanilla", {"state_size": 4}),
}


@pytest.fixture(params=SETTINGS)
def mixer(request: pytest.FixtureRequest) -> TimeInvariantMixer:
    name, options = SETTINGS[request.param]
    entry = MIXERS.get(name)
    torch.manual_seed(0)
    made = entry.cls(entry.config(**options), WIDTH).double()
    assert isinstance(made, TimeInvariantMixer)
    return made


def draw(length: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(SYMBOLS, WIDTH, generator=generator, dtype=torch.float64)
    return table.requires_grad_(), torch.randint(SYMBOLS, (BATCH, length), generator=generator)


@pytest.mark.parametrize("length", [1, 2, 17, LARGEST_KERNEL // SYMBOLS + 1])
def test_responses_equal_scans(mixer: TimeInvariantMixer, length: int) -> None:
    table, index = draw(length)
    found, expected = mixer.by_responses(table, index), mixer(table, mode="sequential", index=index)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    leaves = [table, *mixer.parameters()]
    weight = torch.linspace(-1, 1, found[0].numel(), dtype=torch.float64).view(found[0].shape)
    slopes = [
        torch.autograd.grad((y * weight).sum() + state.abs().square().sum(), leaves)
        for y, state in (found, expected)
    ]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-9, atol=1e-9)


def test_long_strings_and_carried_states_are_scanned(
    mixer: TimeInvariantMixer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise AssertionError("responses were asked for")

    monkeypatch.setattr(mixer, "by_responses", refused)
    table, index = draw(LARGEST_KERNEL // SYMBOLS + 1)
    _, state = mixer(table, index=index)
    mixer(table, state, index=index[:, :5])
    mixer(table[index[:, :5]])
    mixer(table, None, "tree", index=index[:, :5])
    with pytest.raises(AssertionError, match="asked for"):
        mixer(table, index=index[:, :5])
