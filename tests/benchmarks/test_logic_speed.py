"""The benchmark of logic measures what it says, and the numbers it kept are within its bounds."""

from __future__ import annotations

import json

from benchmarks import logic_speed
from benchmarks.repeats import timed


def test_seconds_are_those_of_the_work() -> None:
    reported: list[int] = []

    def work() -> int:
        reported.append(1)
        return sum(map(len, logic_speed.corpus(2000).values()))

    seconds, pairs = timed(work, repeats=2)
    assert len(reported) == len(seconds["seconds"]) == 2 and 500 < pairs < 2000
    assert min(seconds["seconds"]) <= seconds["median"] <= max(seconds["seconds"])
    assert logic_speed.read_back(logic_speed.corpus(2000)["train3"], repeats=1)["pairs"] > 50


def test_kept_numbers_are_within_the_bounds() -> None:
    kept = json.loads(logic_speed.KEPT.read_text())
    assert kept["accepted"] == 500_000
    assert kept["corpus"]["processor_median"] <= kept["bounds"]["corpus_seconds"]
    reading = [one["processor_median"] for one in kept["read"].values()]
    assert max(reading) <= kept["bounds"]["read_seconds"]
