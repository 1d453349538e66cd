"""The horizon as an interval between tested lengths, and whether rounding set it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.config import Config
from lrbench.protocols.fan2024.examination import rule_or_rounding
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.statistics import horizon
from lrbench.training.trial import unwatched


def scored(length: int, correct: int, n: int = 1000) -> tuple[int, int, int]:
    return length, correct, n


@pytest.mark.parametrize(
    ("scores", "lower", "upper", "text"),
    [
        ([scored(500, 1000), scored(40, 1000)], 500, None, "> 500"),
        ([scored(40, 1000), scored(500, 1000), scored(997, 900)], 500, 997, "500 < h <= 997"),
        ([scored(40, 300), scored(500, 1000)], None, 40, "< 40"),
        ([scored(40, 1000), scored(500, 10), scored(4999, 1000)], 40, 500, "40 < h <= 500"),
        ([scored(40, 1000), scored(4999, 1000)], 4999, None, "> 4,999"),
        # 991 of 1,000 is above 0.99, but its Wilson lower bound is not
        ([scored(40, 1000), scored(500, 991)], 40, 500, "40 < h <= 500"),
    ],
)
def test_interval(
    scores: list[tuple[int, int, int]], lower: int | None, upper: int | None, text: str
) -> None:
    assert horizon(scores) == {"lower": lower, "upper": upper, "text": text}


def test_float64_leaves_the_model_as_it_was(tiny: Callable[..., Config]) -> None:
    trial = LengthTrial(tiny(), 0)
    again = rule_or_rounding(trial, 9, 20, unwatched)
    assert again["verdict"] == "rule"  # an untrained model does not know the rule
    assert (again["length"], again["n"]) == (9, 20)
    assert next(trial.model.parameters()).dtype.is_floating_point
    assert str(next(trial.model.parameters()).dtype) == "torch.float32"
