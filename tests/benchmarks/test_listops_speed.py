"""The benchmark of ListOps measures what it says, and the numbers it kept are within its bounds."""

from __future__ import annotations

import json

from benchmarks import listops_speed
from benchmarks.repeats import timed


def test_seconds_are_those_of_the_work() -> None:
    reported: list[int] = []

    def work():  # type: ignore[no-untyped-def]
        reported.append(1)
        return listops_speed.drawn_anew("len_200_300").part(0, 50)

    seconds, made = timed(work, repeats=2)
    assert len(reported) == len(seconds["seconds"]) == 2
    assert seconds["processor_median"] > 0 and min(seconds["seconds"]) <= seconds["median"]
    assert len(made) == 50
    assert len(listops_speed.read_back(made, repeats=2)["seconds"]) == 2


def test_kept_numbers_are_within_the_bounds() -> None:
    kept = json.loads(listops_speed.KEPT.read_text())
    assert kept["near_iid"]["per_processor_second"] >= kept["bounds"]["near_iid_per_second"]
    longest = kept["2,000 strings"]["len_900_1000"]["processor_median"]
    assert longest <= kept["bounds"]["len_900_1000_seconds"]
    reading = [one["processor_median"] for one in kept["read"].values()]
    assert max(reading) <= kept["bounds"]["read_seconds"]
