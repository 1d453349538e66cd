"""Any mixer as an encoder: its pools, its stacks, and strings of all lengths at once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lrbench.checks import from_a_user
from lrbench.errors import UserError
from lrbench.models.build import count_parameters
from lrbench.models.pooled import Pooled, PooledConfig
from tests.mixers.kinds_of_state import KINDS, Halves

LENGTHS = torch.tensor([5, 1, 7, 5, 2])
MASK = torch.arange(8) < LENGTHS[:, None]


def encoder_of(**settings: object) -> Pooled:
    torch.manual_seed(0)
    return Pooled(PooledConfig(**settings), 16).double()


def inputs() -> torch.Tensor:
    return torch.randn(5, 8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def torchs_lstm(encoder: Pooled) -> nn.LSTM:
    lstm = nn.LSTM(16, 16, batch_first=True).double()
    lstm.load_state_dict(encoder.stack.stateful[0].network.state_dict())
    return lstm


@pytest.mark.parametrize("pool", ["mean", "last", "final"])
def test_lstm_is_torchs(pool: str) -> None:
    encoder, x = encoder_of(pool=pool), inputs()
    lstm = torchs_lstm(encoder)
    assert count_parameters(encoder) == count_parameters(lstm)
    expected = []
    for row, length in zip(x, LENGTHS, strict=True):
        y, (h, c) = lstm(row[None, :length])
        one = {"mean": y[0].mean(0), "last": y[0, -1], "final": torch.cat([h[0, 0], c[0, 0]])}
        expected.append(one[pool])
    found = encoder(x, MASK)
    assert found.shape == (5, encoder.out_width)
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("mixer", ["blockdiag", "lru", "rwkv4", "s4d", "transformer"])
@pytest.mark.parametrize("pool", ["mean", "last"])
def test_every_stack_reads_strings_alone(mixer: str, pool: str) -> None:
    encoder, x = encoder_of(mixer=mixer, pool=pool, layers=2), inputs()
    alone = [
        encoder(row[None, :length], torch.ones(1, length, dtype=torch.bool))
        for row, length in zip(x, LENGTHS.tolist(), strict=True)
    ]
    torch.testing.assert_close(encoder(x, MASK), torch.cat(alone), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mixer", ["lru", "liquid_s4", "rwkv4"])
def test_final_states_of_any_kind(mixer: str) -> None:
    encoder, x = encoder_of(mixer=mixer, pool="final", backbone="bare"), inputs()
    last = encoder.stack.stateful[-1]
    found = encoder(x, MASK)
    assert found.shape == (5, last.state_size) and found.is_floating_point()
    whole = encoder(x[2:3, :7], MASK[2:3, :7])
    torch.testing.assert_close(found[2:3], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_final_states_may_be_named(kind: str) -> None:
    encoder, x = encoder_of(mixer="rnn", pool="final", backbone="bare"), inputs()
    encoder.stack.mixers[0] = Halves(kind, 16).double()
    found = encoder(x, MASK)
    whole = encoder(x[2:3, :7], MASK[2:3, :7])
    torch.testing.assert_close(found[2:3], whole)


def test_settings_reach_mixer_and_stack() -> None:
    encoder = encoder_of(mixer="gru", settings={"units": 24}, stack={"norm": True})
    assert encoder.out_width == 24
    assert isinstance(encoder.stack.norm, nn.LayerNorm)
    other = encoder_of(mixer="lru", backbone="gpt", stack={"expansion": 2})
    assert type(other.stack).__name__ == "Gpt" and other.stack.config.expansion == 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mixer": "lstmm"}, "Did you mean 'lstm'"),
        ({"settings": {"unit": 3}}, "Did you mean 'model.encoder.settings.units'"),
        ({"stack": {"norms": True}}, "model.encoder.stack.norm"),
        ({"mixer": "transformer", "backbone": "bare", "pool": "final"}, "state of one size"),
        ({"mixer": "lru", "pool": "final"}, "model.encoder.backbone=bare"),
        ({"pool": "maen"}, "must be one of mean, last, final"),
        ({"settings": {"units": True}}, "model.encoder.settings.units must be a whole number"),
        ({"settings": {"units": -2}}, "model.encoder.settings.units must be at least 1"),
        ({"mixer": "blockdiag", "settings": {"p": "high"}}, "settings.p must be a number"),
        (
            {"mixer": "blockdiag", "settings": {"constraint": 3}},
            "settings.constraint must be a word",
        ),
        (
            {"mixer": "blockdiag", "settings": {"block_size": 3}},
            "model.encoder.settings.block_size 3",
        ),
        ({"mixer": "rnn", "settings": {"init": "exact"}}, "model.encoder.settings.init=exact"),
        ({"stack": {"norm": 3}}, "model.encoder.stack.norm must be true or false, not 3"),
        (
            {"stack": {"hidden": None}},
            "model.encoder.stack.hidden must be a whole number, not null",
        ),
        ({"stack": {"hidden": 64}}, "model.encoder.stack.hidden=64 is for the head of a stack"),
        ({"stack": {"name": "gpt"}}, "setting 'model.encoder.stack.name' unknown"),
        ({"mixer": "mlstm", "stack": {"slstm_at": [7]}}, "raise model.encoder.layers"),
        ({"settings": {"units": 24}, "backbone": "gpt"}, "choose model.encoder.backbone=bare"),
    ],
)
def test_mistakes_are_reported(settings: dict[str, object], text: str) -> None:
    with from_a_user(), pytest.raises((UserError, ValueError), match=text.replace(".", r"\.")):
        encoder_of(**settings)
