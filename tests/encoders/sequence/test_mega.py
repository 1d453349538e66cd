"""MEGA: averages against their recurrences, biases by distance, groups against a padded batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.encoders.sequence.mega import (
    AVERAGES,
    Mega,
    MegaConfig,
    MegaLayer,
    MovingAverage,
    groups_of,
)
from lrbench.errors import UserError
from lrbench.models.build import count_parameters
from lrbench.models.classifier import Classifier, ClassifierConfig

from ..agreement import assert_same_as_reference

LENGTHS = torch.tensor([5, 1, 40, 18, 2, 27, 19])


def encoder_of(width: int) -> Mega:
    torch.manual_seed(0)
    encoder = Mega(MegaConfig(2, 6, 10, 50, 0.3), width).double()
    with torch.no_grad():  # first weights are so small that layers hardly differ from one another
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return encoder


def strings(width: int, more: int = 0) -> tuple[Tensor, Tensor]:
    mask = torch.arange(int(LENGTHS.max()) + more) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, width, dtype=torch.float64)
    return (x * mask[..., None]).requires_grad_(), mask


def by_recurrence(average: MovingAverage, x: Tensor) -> Tensor:
    """Step the averages from the start and from the end; both count the present."""
    p, share = average.delta.sigmoid(), average.alpha.sigmoid()
    weights = average.gamma / AVERAGES**0.5
    y = x * average.omega
    for side, way in enumerate((1, -1)):
        at = slice(side * x.shape[2], (side + 1) * x.shape[2])
        state = torch.zeros(len(x), x.shape[2], AVERAGES, dtype=x.dtype)
        for t in range(x.shape[1])[::way]:
            entered = p[at] * average.beta[at] * x[:, t, :, None]
            state = (1 - p[at] * share[at]) * state + entered
            y[:, t] += (weights[at] * state).sum(2)
    return y


@pytest.mark.parametrize("length", [1, 2, 9, 200])
def test_averages_are_their_recurrences(length: int) -> None:
    torch.manual_seed(0)
    average = MovingAverage(3).double()
    x = torch.randn(2, length, 3, dtype=torch.float64)
    with torch.no_grad():
        expected = by_recurrence(average, x)
        torch.testing.assert_close(average(x), expected, rtol=1e-9, atol=1e-9)


def test_biases_are_those_of_distances() -> None:
    layer = MegaLayer(MegaConfig(longest=7), 4)
    biases = layer._biases(5)
    for i in range(5):
        for j in range(5):
            assert biases[i, j] == layer.bias[7 - 1 + j - i]


def test_attention_is_its_equation() -> None:
    torch.manual_seed(0)
    layer = MegaLayer(MegaConfig(shared=3, longest=4), 4).double()
    z, mask = torch.randn(1, 4, 3, dtype=torch.float64), torch.tensor([[True, True, True, False]])
    found = layer._attention(z, mask)
    q, k = z * layer.scale[0] + layer.shift[0], z * layer.scale[1] + layer.shift[1]
    scores = (q @ k.mT / 3**0.5 + layer._biases(4))[..., :3]
    torch.testing.assert_close(found[..., :3], scores.softmax(2))
    assert not found[..., 3].any()


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_groups_equal_the_padded_batch(compiled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", compiled)
    encoder = encoder_of(16)
    x, mask = strings(16, more=2)
    assert_same_as_reference(encoder, x, mask)


def test_groups_are_of_similar_length() -> None:
    assert groups_of([30, 5, 16, 100, 41, 17, 1]) == [[6, 1, 2], [5], [0, 4], [3]]
    assert groups_of([3]) == [[0]]


def test_strings_beyond_the_biases() -> None:
    encoder = encoder_of(4)
    with pytest.raises(UserError, match="a string of 51 symbols; it has biases for up to 50"):
        encoder(torch.zeros(1, 51, 4, dtype=torch.float64), torch.ones(1, 51, dtype=torch.bool))


def test_first_weights() -> None:
    torch.manual_seed(0)
    layer = MegaLayer(MegaConfig(), 80)
    for weights in (layer.gates.weight, layer.bias, layer.second.weight):
        assert float(weights.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert not layer.gates.bias.any() and not layer.shift.any()
    signs = layer.average.beta.detach().round()
    assert torch.equal(signs, torch.tensor([1.0, -1.0]).repeat(8).expand(160, 16))


def test_parameters_of_the_paper() -> None:
    model = Classifier(ClassifierConfig(), Mega(MegaConfig(), 80), 15, 10)
    assert count_parameters(model) == 624_324
