"""The horizon as an interval between tested lengths, and whether rounding set it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.protocols.fan2024 import examination
from lrbench.protocols.fan2024.examination import horizon_of, rule_or_rounding
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.statistics import horizon
from lrbench.training.scoring import Score
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


def test_a_copy_that_still_rounds_is_no_float64() -> None:
    def again(precision: str) -> object:
        words = ["protocol=walks", "task=sum", "model=lstm", f"protocol.precision={precision}"]
        return rule_or_rounding(LengthsTrial(composed(words), 0), 9, 20, unwatched)

    assert again("bfloat16") is None
    assert again("float32") is not None


def right(length: int, n: int, wrong: int = 0) -> Score:
    return Score(length, n, n - wrong, None, 0.0)


def test_lengths_of_too_few_strings_end_no_horizon(tiny: Callable[..., Config]) -> None:
    """All 100 right are still below 0.99: as `protocol.test_size=1000` has them further on."""
    trial = LengthTrial(tiny(), 0)
    few = [right(43, 100), right(997, 100, wrong=90)]
    found = horizon_of(trial, [right(40, 1000), *few, right(500, 1000)], unwatched)
    assert (found["text"], found["float64"]) == ("> 500", None)
    assert horizon_of(trial, few, unwatched)["text"] == "< 43"  # nothing better is known


def test_too_few_right_answers_in_float64_say_nothing(
    tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = LengthTrial(tiny(), 0)
    for n, wrong, verdict in ((100, 0, None), (100, 50, "rule"), (1000, 0, "rounding")):
        monkeypatch.setattr(examination, "score", lambda *_, **__: right(9, n, wrong))  # noqa: B023
        again = rule_or_rounding(trial, 9, n, unwatched)
        assert (again and again["verdict"]) == verdict
