"""What every backbone promises: reads agree, pieces agree, noise is drawn from the generator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lrbench.checks import from_a_user
from lrbench.registry import BACKBONES
from tests.models.conftest import Build

STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "lrnn_release": ("lrnn_release", {}),
    "s4": ("s4", {}),
    "s4 post-norm": ("s4", {"prenorm": False}),
    "s4 batch norm": ("s4", {"norm": "batch"}),
    "s4 without norm": ("s4", {"norm": "none"}),
    "gpt": ("gpt", {}),
    "gpt, embedding normalised": ("gpt", {"embedding_norm": True}),
    "gpt without perceptrons": ("gpt", {"expansion": 0}),
    "gpt_rms": ("gpt_rms", {}),
    "bare": ("bare", {}),
    "bare, hidden layer": ("bare", {"hidden": 8, "norm": False}),
}


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return STACKS[request.param]


@pytest.mark.slow
def test_what_is_read_agrees(stack: Any, build: Build, tokens: torch.Tensor) -> None:
    name, settings = stack
    model = build("blockdiag", name, stack=settings)
    everything, state = model(tokens)
    last, state_of_last = model(tokens, read="last")
    nothing, state_of_none = model(tokens, read="none")
    assert everything.shape == (4, 11, 5) and nothing is None
    torch.testing.assert_close(last, everything[:, -1])
    torch.testing.assert_close(state_of_last, state)
    torch.testing.assert_close(state_of_none, state)


@pytest.mark.parametrize("cut", [1, 5, 10])
def test_pieces_agree(stack: Any, cut: int, build: Build, tokens: torch.Tensor) -> None:
    name, settings = stack
    model = build("blockdiag", name, stack=settings)
    wanted, last = model(tokens)
    head, state = model(tokens[:, :cut])
    tail, state = model(tokens[:, cut:], state)
    torch.testing.assert_close(torch.cat([head, tail], 1), wanted)
    torch.testing.assert_close(state, last)


def test_a_signal_is_read_like_symbols(stack: Any, build: Build, signal: torch.Tensor) -> None:
    name, settings = stack
    model = build("blockdiag", name, symbols=0, features=3, stack=settings)
    logits, state = model(signal)  # float32, as tasks give it, to a float64 model
    assert logits.shape == (4, 11, 5) and logits.dtype == torch.float64
    pieces = model(signal[:, 4:], model(signal[:, :4])[1])[0]
    torch.testing.assert_close(pieces, logits[:, 4:])
    assert len(state) == 2


def test_the_table_of_symbols_changes_nothing(
    stack: Any, build: Build, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, settings = stack
    model = build("blockdiag", name, stack=settings)
    wanted, _ = model(tokens)
    monkeypatch.setattr(type(model.mixers[0]), "takes_symbols", False)
    torch.testing.assert_close(model(tokens)[0], wanted)


def test_positions_are_read_in_order(stack: Any, build: Build, tokens: torch.Tensor) -> None:
    """A later symbol changes no earlier answer, with running statistics as with none."""
    name, settings = stack
    model = build("blockdiag", name, stack=settings)
    changed = tokens.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 7
    before, after = model(tokens)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("name", ["s4", "gpt"])
def test_dropout_is_drawn_from_the_generator(name: str, build: Build, tokens: torch.Tensor) -> None:
    model = build("blockdiag", name, stack={"dropout": 0.5})
    plain = model(tokens)[0]
    torch.testing.assert_close(model(tokens)[0], plain)
    drawn = [model(tokens, generator=torch.Generator().manual_seed(k))[0] for k in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.allclose(drawn[0], drawn[2])
    assert not torch.allclose(drawn[0], plain)


def test_batch_statistics_are_those_of_training(build: Build, tokens: torch.Tensor) -> None:
    """torch's own BatchNorm1d says what one training batch makes of the running mean."""
    model = build("blockdiag", "s4", layers=1, stack={"norm": "batch"})
    expected = nn.BatchNorm1d(16).double()
    expected(model.embedding(tokens).flatten(0, 1))
    before = model(tokens)[0]
    model(tokens, generator=torch.Generator())
    torch.testing.assert_close(model.norms[0].running_mean, expected.running_mean)
    torch.testing.assert_close(model.norms[0].running_var, expected.running_var)
    assert not torch.allclose(model(tokens)[0], before)


def test_one_hot_symbols_are_as_wide_as_the_vocabulary(build: Build, tokens: torch.Tensor) -> None:
    model = build("blockdiag", "bare", symbols=8, layers=1, stack={"embed": "one_hot"})
    assert model.mixers[0].width == 8
    wanted = model(tokens)[0]
    model.mixers[0].takes_symbols = False
    torch.testing.assert_close(model(tokens)[0], wanted)


@pytest.mark.parametrize(
    ("embed", "inputs"), [("one_hot", {"features": 3, "symbols": 0}), ("none", {})]
)
def test_an_input_the_task_does_not_have_is_refused(
    embed: str, inputs: dict[str, Any], build: Build
) -> None:
    with pytest.raises(ValueError, match=r"model\.backbone\.embed"):
        build("blockdiag", "bare", stack={"embed": embed}, **inputs)


def test_the_s4_block_is_the_written_one(build: Build, tokens: torch.Tensor) -> None:
    """Residual, gate and norms by hand around the mixer's own outputs."""
    model = build("blockdiag", "s4", layers=1)
    a = model.embedding(tokens)
    z = nn.functional.gelu(model.mixers[0](model.norms[0](a))[0])
    value, gate = model.gates[0](z).chunk(2, -1)
    expected = model.head(model.norms[1](a + value * gate.sigmoid()))
    torch.testing.assert_close(model(tokens)[0], expected)


def test_the_gpt_block_is_the_written_one(build: Build, tokens: torch.Tensor) -> None:
    model = build("blockdiag", "gpt", layers=1)
    a = model.embedding(tokens)
    a = a + model.mixers[0](model.mixer_norms[0](a))[0]
    a = a + model.channels[0](model.channel_norms[0](a))
    torch.testing.assert_close(model(tokens)[0], model.head(model.norm(a)))


def test_the_block_with_rms_norms_is_the_written_one(build: Build, tokens: torch.Tensor) -> None:
    model = build("blockdiag", "gpt_rms", layers=1)

    def normal(norm: nn.RMSNorm, x: torch.Tensor) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight

    a = model.embedding(tokens)
    a = a + model.mixers[0](normal(model.mixer_norms[0], a))[0]
    channel, z = model.channels[0], normal(model.channel_norms[0], a)
    first, second = channel.first.weight.chunk(2)
    assert len(first) == 48  # two thirds of 4 x 16, up to a multiple of 8
    a = a + nn.functional.silu(z @ first.T) * (z @ second.T) @ channel.last.weight.T
    torch.testing.assert_close(model(tokens)[0], model.head(normal(model.norm, a)))


def test_mixers_know_their_depth(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    from lrbench.mixers.block_diagonal.blockdiag import BlockDiagonalMixer

    places: list[tuple[int, int]] = []
    monkeypatch.setattr(
        BlockDiagonalMixer, "place", lambda self, layer, layers: places.append((layer, layers))
    )
    for name in ("lrnn_release", "s4", "gpt", "bare"):
        build("blockdiag", name, layers=3)
    assert places == [(0, 3), (1, 3), (2, 3)] * 4


def test_a_mixer_that_widens_needs_the_bare_backbone(
    build: Build, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lrbench.mixers.block_diagonal.blockdiag import BlockDiagonalMixer

    monkeypatch.setattr(BlockDiagonalMixer, "out_width", property(lambda self: self.width + 1))
    with pytest.raises(ValueError, match=r"model\.backbone\.name=bare"):
        build("blockdiag", "s4")


def test_a_width_that_does_not_fit_says_where_it_is_from(build: Build) -> None:
    with pytest.raises(ValueError, match=r"is 7 wide because of the task.*one_hot"):
        build("blockdiag", "bare", symbols=7, stack={"embed": "one_hot"})


@pytest.mark.parametrize(
    ("mixer", "backbone", "stack", "words"),
    [
        ("blockdiag", "gpt", {"expansion": 0, "channel": "swiglu"}, "channel=swiglu is for percep"),
        ("blockdiag", "mamba", {"channel": "swiglu"}, "model.backbone.expansion=0 has none"),
        ("rwkv4", "gpt", {"expansion": 2}, "expansion=2 is for other mixers: Rwkv4Mixer has"),
        ("rwkv7", "gpt_rms", {"channel": "gelu"}, "channel=gelu is for other mixers: Rwkv7Mixer"),
        ("blockdiag", "s4", {"norm": "none", "prenorm": False}, "prenorm=false is for model.backb"),
    ],
)
def test_what_a_stack_would_not_read_is_refused(
    build: Build, mixer: str, backbone: str, stack: dict[str, Any], words: str
) -> None:
    with from_a_user(), pytest.raises(ValueError, match=words):
        BACKBONES.get(backbone).config(**stack)
        build(mixer, backbone, stack=stack)
