"""The S4D layer before chunks: reversal within strings, tied dropout, and the detached half."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import gelu, glu

from lrbench.encoders.sequence.s4d_layer import S4dLayer, reversal, tied
from lrbench.errors import UserError
from lrbench.models.build import count_parameters

LENGTHS = torch.tensor([5, 1, 3])
MASK = torch.arange(6) < LENGTHS[:, None]


def layer_of(detach: bool, **settings: object) -> S4dLayer:
    torch.manual_seed(0)
    return S4dLayer(4, 8, detach_backward=detach, **settings).double()


def inputs() -> torch.Tensor:
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(3, 6, 4, generator=drawn, dtype=torch.float64)


def test_strings_are_reversed_within_their_length() -> None:
    assert reversal(MASK).tolist() == [[4, 3, 2, 1, 0, 5], [0, 1, 2, 3, 4, 5], [2, 1, 0, 3, 4, 5]]


@pytest.mark.parametrize("detach", [False, True])
def test_the_layer_is_its_equation(detach: bool) -> None:
    layer, x = layer_of(detach), inputs()
    y = layer(x, MASK)
    for n, length in enumerate(LENGTHS.tolist()):
        one = x[n : n + 1, :length]
        both = layer.spaces(torch.cat([one, one.flip(1)], 2))
        v = torch.cat([both[..., :4], both[..., 4:].flip(1)], 2)
        expected = glu(layer.gate(gelu(v)), -1) + one
        torch.testing.assert_close(y[n : n + 1, :length], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("detach", [False, True])
def test_the_backward_half_learns_unless_it_is_detached(detach: bool) -> None:
    layer, x = layer_of(detach), inputs().requires_grad_()
    layer(x, MASK)[MASK].square().sum().backward()
    for name, parameter in layer.spaces.named_parameters():
        channels = 1 if name == "output" else 0
        ahead, behind = parameter.grad.chunk(2, channels)
        assert ahead.any(), name
        assert bool(behind.any()) is not detach, name


def test_no_gradient_passes_through_the_detached_half() -> None:
    """Position 1 of a string reaches position 0 through the backward half alone."""
    for detach in (False, True):
        x = inputs().requires_grad_()
        layer_of(detach)(x, MASK)[0, 0].sum().backward()
        assert bool(x.grad[0, 1].any()) is not detach


def test_dropout_drops_whole_channels() -> None:
    x = torch.ones(50, 7, 40)
    y = tied(x, 0.25, torch.Generator().manual_seed(0))
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert float((y == 0).double().mean()) == pytest.approx(0.25, abs=0.04)
    assert tied(x, 0.25, None) is x
    layer = layer_of(True, dropout=0.5)
    first, second = (layer(inputs(), MASK, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.allclose(first, layer(inputs(), MASK))


def test_batch_norm_follows_the_sum() -> None:
    plain, normal = layer_of(True), layer_of(True, norm=True)
    y = plain(inputs(), MASK).flatten(0, 1)
    expected = (y - y.mean(0)) / (y.var(0, correction=0) + 1e-5).sqrt()
    found = normal(inputs(), MASK, torch.Generator()).flatten(0, 1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("detach", [False, True])
def test_the_backward_half_is_zero_at_padding(detach: bool) -> None:
    """As in the released code, which puts zeros there; batch normalisation counts them."""
    layer, x = layer_of(detach), inputs()
    x = torch.where(MASK[..., None], x, 0)
    ahead = layer.spaces(torch.cat([x, x], 2))[..., :4]  # causal: the first half alone matters
    z = gelu(torch.cat([ahead, torch.zeros_like(ahead)], 2))
    expected = glu(layer.gate(z), -1) + x
    torch.testing.assert_close(layer(x, MASK)[~MASK], expected[~MASK], rtol=1e-9, atol=1e-9)


def test_parameters_of_the_paper() -> None:
    """RIR-GRC has 546,826, of which BBT-GRC's 431,370 are not in this layer."""
    assert count_parameters(S4dLayer(128)) == 546_826 - 431_370


def test_a_single_position_has_no_variance() -> None:
    layer, mask = layer_of(True, norm=True), torch.ones(1, 1, dtype=torch.bool)
    one = inputs()[:1, :1]
    assert layer(one, mask).isfinite().all()
    with pytest.raises(UserError, match=r"raise protocol\.batch_size"):
        layer(one, mask, torch.Generator().manual_seed(0))
