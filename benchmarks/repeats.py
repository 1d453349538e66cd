"""Repeats of one piece of work, timed by the wall and by the processor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


def timed(work: Callable[[], Made], repeats: int) -> tuple[dict[str, Any], Made]:
    """Return wall and processor seconds of each repeat, and what the work gave."""
    wall, processor = [], []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        made = work()
        wall.append(round(time.perf_counter() - began, 3))
        processor.append(round(time.process_time() - used, 3))
    seconds = {
        "seconds": wall,
        "median": statistics.median(wall),
        "processor_seconds": processor,
        "processor_median": statistics.median(processor),
    }
    return seconds, made
