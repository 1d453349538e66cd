"""A run's numbers as trackers have them: names and values at an update, made of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lrbench.protocols.base import declared
from lrbench.records import POSITIONS, Evaluation, Result

Kind = Literal["train", "look", "test"]
AT_ONE_LENGTH = (
    "test",
    "train_length",
    "band",
    "further",
)  # splits whose rows have one length each
NOT_SCORES = ("_n", "_length")  # endings of what a look says of its strings


@dataclass(frozen=True)
class TrackedPoint:
    """Values by name (`train/loss`, `look/test_accuracy`, `test/best/accuracy/500`) at an update.

    A run has at most one point of a kind at an update.
    """

    kind: Kind
    step: int
    values: dict[str, float]


def points_of(lines: Sequence[Mapping[str, Any]], result: Result | None) -> Iterator[TrackedPoint]:
    """Yield the points of the lines of a metrics.jsonl, and that of result.json if there is one."""
    for line in lines:
        if (point := point_of(line)) is not None:
            yield point
    if result is not None:
        yield scores_of(result)


def point_of(line: Mapping[str, Any]) -> TrackedPoint | None:
    """Return the point of a line of metrics.jsonl; None of a notice."""
    step = line["step"]
    if "look" in line:
        look = {k: v for k, v in line["look"].items() if not k.endswith(NOT_SCORES)}
        return TrackedPoint("look", step, _numbers("look", look))
    if "loss" in line:
        return TrackedPoint("train", step, _numbers("train", line))
    return None


def scores_of(result: Result) -> TrackedPoint:
    """Return the scores on fresh strings, of each rule at each length or on each split.

    Curves over positions or over a range of lengths stay in result.json.
    """
    by_split = declared(result["protocol"]).by_split
    values = {
        f"test/{row['which']}/{row['metric']}/{_place(row, by_split)}": float(row["value"])
        for row in result["evaluations"]
        if row["kind"] == "test" and _is_number(row["value"]) and _is_single(row, by_split)
    }
    return TrackedPoint("test", result["steps"], values)


def _is_single(row: Evaluation, by_split: bool) -> bool:
    return row["split"] != POSITIONS and (by_split or row["split"] in AT_ONE_LENGTH)


def _place(row: Evaluation, by_split: bool) -> str:
    return row["split"] if by_split else str(row["length"])


def _numbers(prefix: str, values: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"{prefix}/{name}": float(value)
        for name, value in values.items()
        if name != "step" and _is_number(value)
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
