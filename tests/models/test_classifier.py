"""Frameworks for strings and pairs: parameter counts of the paper, dropout, heads, padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lrbench.encoders.base import Encoder
from lrbench.models.build import count_parameters
from lrbench.models.classifier import Classifier, ClassifierConfig, PairClassifier, PairConfig
from lrbench.registry import ENCODERS

TOKENS = torch.tensor([[1, 2, 3, 4], [4, 3, 0, 0], [2, 0, 0, 0]])
LENGTHS = torch.tensor([4, 2, 1])


def encoder_of(name: str, width: int, **settings: Any) -> Encoder:
    torch.manual_seed(0)
    entry = ENCODERS.get(name)
    encoder: Encoder = entry.cls(entry.config(**settings), width)
    return encoder


def classifier(name: str = "bbt_grc", width: int = 8, **settings: Any) -> Classifier:
    return Classifier(ClassifierConfig(**settings), encoder_of(name, width), 5, 10)


@pytest.mark.parametrize(
    ("name", "settings", "parameters"),
    [
        ("rnn_grc", {}, 414_602),
        ("bbt_grc", {}, 431_370),
        ("s4d_stack", {}, 534_026),
        ("ebt_grc", {}, 439_691),
        ("rir_ebt_grc", {"s4d": False}, 439_691),
        ("rir_ebt_grc", {}, 555_147),
    ],
)
def test_parameters_of_the_paper(name: str, settings: dict[str, Any], parameters: int) -> None:
    """Of ListOps: 15 symbols and 3 more, 10 classes, d = 128, embedding and head included."""
    model = Classifier(
        ClassifierConfig(), encoder_of(name, 128, **settings), symbols=15, classes=10
    )
    assert count_parameters(model) == parameters


def test_the_head_is_the_published_one_unless_another_is_asked_for() -> None:
    heads = {
        (name, head): type(classifier(name, head=head).head).__name__
        for name in ("bbt_grc", "s4d_stack")
        for head in ("published", "mlp", "linear")
    }
    assert heads == {
        ("bbt_grc", "published"): "MlpHead",
        ("bbt_grc", "mlp"): "MlpHead",
        ("bbt_grc", "linear"): "LinearHead",
        ("s4d_stack", "published"): "LinearHead",
        ("s4d_stack", "mlp"): "MlpHead",
        ("s4d_stack", "linear"): "LinearHead",
    }


def test_what_stands_beyond_a_string_does_not_matter() -> None:
    model = classifier()
    mask = torch.arange(4) < LENGTHS[:, None]
    expected = model(TOKENS, LENGTHS)
    assert expected.shape == (3, 10)
    for other in (1, -1, 999):
        assert torch.equal(model(torch.where(mask, TOKENS, other), LENGTHS), expected)
    longer = torch.cat([TOKENS, torch.full((3, 5), 2)], 1)
    assert torch.equal(model(longer, LENGTHS), expected)


def test_the_vocabulary_has_three_more_symbols_and_padding_is_zero() -> None:
    table = classifier().reader.embedding
    assert table.weight.shape == (8, 8) and table.padding_idx == 6
    assert not table.weight[6].any() and table.weight[5].any() and table.weight[7].any()
    big = classifier(width=64).reader.embedding.weight.detach()
    assert float(big.std()) == pytest.approx((7 / 8) ** 0.5, abs=0.1)


@pytest.mark.parametrize("place", ["in_dropout", "out_dropout"])
def test_dropout_is_where_it_is_said_to_be(place: str) -> None:
    other = {"in_dropout": 0.0, "out_dropout": 0.0}
    model = Classifier(
        ClassifierConfig(**{**other, place: 0.5}), encoder_of("bbt_grc", 8, dropout=0.0), 5, 10
    )
    calm = Classifier(ClassifierConfig(**other), encoder_of("bbt_grc", 8, dropout=0.0), 5, 10)
    calm.load_state_dict(model.state_dict())
    expected = model(TOKENS, LENGTHS)
    assert torch.equal(calm(TOKENS, LENGTHS, torch.Generator()), expected)
    first, second, third = (
        model(TOKENS, LENGTHS, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third) and not torch.equal(first, expected)
    vectors = model.reader(TOKENS, LENGTHS, torch.Generator().manual_seed(1))
    assert torch.equal(vectors, calm.reader(TOKENS, LENGTHS)) is (place == "out_dropout")


def pairs(name: str = "bbt_grc", width: int = 8, **settings: Any) -> PairClassifier:
    return PairClassifier(PairConfig(**settings), encoder_of(name, width), 11, 7)


def test_parameters_of_a_pair_classifier() -> None:
    """d = 200: embedding 14 d, encoder, Linear(4 d, 200) and Linear(200, 7)."""
    model = pairs(width=200)
    encoder = count_parameters(model.reader.encoder)
    assert count_parameters(model) == 14 * 200 + encoder + 801 * 200 + 201 * 7


def test_sides_are_read_by_one_encoder_and_their_order_matters() -> None:
    model = pairs(out_dropout=0.0, in_dropout=0.0)
    short, lengths = TOKENS[:, :2], LENGTHS.clamp(max=2)
    logits = model(TOKENS, LENGTHS, short, lengths)
    u, v = model.reader(TOKENS, LENGTHS), model.reader(short, lengths)
    expected = model.head(torch.cat([u, v, u * v, (u - v).abs()], 1))
    torch.testing.assert_close(logits, expected)
    assert not torch.allclose(logits, model(short, lengths, TOKENS, LENGTHS), atol=1e-3)
    assert logits.shape == (3, 7)


@pytest.mark.parametrize("config", [ClassifierConfig, PairConfig])
def test_settings_out_of_range(config: type) -> None:
    with pytest.raises(ValueError, match="in_dropout must be in"):
        config(in_dropout=1.0)
    with pytest.raises(ValueError, match="out_dropout must be in"):
        config(out_dropout=-0.1)
