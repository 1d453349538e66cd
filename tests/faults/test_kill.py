"""kill -9 at any moment: the run goes on from its newest checkpoint, to the same bits.

Instants are drawn in equal parts from what a run does (start, training, looks, checkpoints,
examination, result), so that the rare ones are met too. LRBENCH_KILLS=50 draws fifty.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from .bits import content, differences
from .conftest import KILLED, Laboratory, Reference, run_folder

KILLS = int(os.environ.get("LRBENCH_KILLS", "8"))
PHASES = (
    "checkpoint",
    "training",
    "examination",
    "look",
    "result",
    "checkpoint",
    "training",
    "start",
)


def instants(events: list[str], number: int) -> list[int]:
    """Return which event to die at, for kill `number`; every third dies again when resuming."""
    draw = random.Random(number)
    phase = PHASES[number % len(PHASES)]
    first = draw.choice([i for i, event in enumerate(events) if event.startswith(phase)])
    return [first, draw.randrange(len(events) // 4)] if number % 3 == 2 else [first]


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_run_ends_with_the_same_bits(
    number: int, lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    killed = Counter[str]()
    for instant in instants(reference.events, number):
        code = lab.train(tmp_path, sabotage=[["count_events", {"kill_at": instant}]]).wait()
        assert code in (KILLED, 0)  # the second time there may be less left to do than drawn
        killed[reference.events[instant]] += code == KILLED
    assert killed.total() >= 1
    print("killed at", *killed.elements(), sep="\n")

    resumed = lab.train(tmp_path)

    assert resumed.wait() == 0, resumed.err
    folder = run_folder(tmp_path)
    assert not differences(content(folder), content(reference.folder))
    assert not list(folder.rglob("*.tmp"))


def test_after_a_kill_only_what_was_not_scored_is_examined(
    lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    """How many checkpoints the rules keep depends on the processor: on those known at least two."""
    score = "examination: before score"
    scored = [place for place, event in enumerate(reference.events) if event == score]
    before = len(set(content(reference.folder)["result"]["checkpoints"].values())) - 1
    kill = ["count_events", {"kill_at": scored[-1]}]
    assert lab.train(tmp_path, sabotage=[kill]).wait() == KILLED
    files = list(tmp_path.rglob("examination.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert len(lines) == before

    log = tmp_path / "events"
    resumed = lab.train(tmp_path, sabotage=[["count_events", {"log": str(log)}]])

    assert resumed.wait() == 0, resumed.err
    again = log.read_text().splitlines().count(score)
    assert 1 <= again <= len(scored) - 2 * before  # each was scored at two lengths
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))
    assert not list(tmp_path.rglob("examination.jsonl"))
