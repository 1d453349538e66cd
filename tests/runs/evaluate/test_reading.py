"""What a trained model refuses to read, before a kernel reads where there is nothing."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.runs.evaluate.reading import TrainedModel
from lrbench.tasks import make_task
from lrbench.training.trial import model_for


def untrained(*words: str) -> TrainedModel:
    config = composed([*words, "model.width=8"])
    return TrainedModel(model_for(config, make_task(config.task), 0), config, 0)


TOKENS, LENGTHS = torch.tensor([[14, 3, 99], [1, 99, 99]]), torch.tensor([2, 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((TOKENS,), "takes tokens (N, S), lengths (N,), not (2, 3)"),
        ((TOKENS, LENGTHS, TOKENS, LENGTHS), "not (2, 3) and (2,) and (2, 3) and (2,)"),
        ((TOKENS, LENGTHS[:1]), "lengths must be one a string, from 1 to S"),
        ((TOKENS, LENGTHS * 2), "lengths must be one a string, from 1 to S"),
        ((TOKENS, LENGTHS * 0), "lengths must be one a string, from 1 to S"),
        ((TOKENS, LENGTHS + 1), "are from 0 to 14 (0 1 2"),  # 99 is a symbol then
        ((TOKENS.int(), LENGTHS), "must be torch.int64, not torch.int32"),
    ],
)
def test_strings_of_an_encoder(given: tuple[Tensor, ...], message: str) -> None:
    model = untrained("task=listops", "model=bbt_grc", "protocol=rir2023")
    assert model(TOKENS, LENGTHS).shape == (2, 10)  # what lies behind an end is not read
    with pytest.raises(UserError, match=re.escape(message)):
        model(*given)


def test_pairs_of_an_encoder() -> None:
    model = untrained("task=logic", "model=bbt_grc", "protocol=rir2023")
    one = torch.full((2, 1), 3), torch.ones(2, dtype=torch.int64)
    assert model(*one, *one).shape == (2, 7)
    with pytest.raises(UserError, match=r"lengths \(N,\), tokens \(N, S\), lengths \(N,\), not"):
        model(*one)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 2), (2, 0, 1)])
def test_a_signal_has_its_shape(shape: tuple[int, ...]) -> None:
    model = untrained("task=mackey_glass", "model=rnn")
    assert model(torch.zeros(2, 5, 1)).shape[:2] == (2, 5)
    with pytest.raises(UserError, match=re.escape(f"(B, T, 1), not {shape}")):
        model(torch.zeros(shape))
