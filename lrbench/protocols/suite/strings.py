"""Hashes of a suite's test strings, which show whether a run was scored on the lock's strings."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from lrbench.records import SplitData
from lrbench.tasks.base import IGNORE, SampledTask

UNASKED = -1  # in the hashed targets


def grid_lengths(task: SampledTask, test: Any) -> list[int]:
    """Return the lengths that are tested, each one that the task has, shortest first."""
    return sorted({task.nearest_length(length) for length in test.lengths})


def string_hashes(task: SampledTask, test: Any) -> dict[str, SplitData]:
    """Return for each tested length, as text, how many strings there are and their SHA-256.

    Hashed are the tokens as unsigned 16-bit numbers, low byte first, a string after the other, then
    the targets as signed ones, -1 where nothing is asked.
    """
    found: dict[str, SplitData] = {}
    for length in grid_lengths(task, test):
        strings = test.strings_at(length)
        batch = task.sample(task.stream(test.data_seed, "test", length), 0, strings, length, "cpu")
        targets = torch.where(batch.targets == IGNORE, UNASKED, batch.targets)
        digest = hashlib.sha256(batch.tokens.numpy().astype(np.dtype("<u2")).tobytes())
        digest.update(targets.numpy().astype(np.dtype("<i2")).tobytes())
        made = {"length": length, "data_seed": test.data_seed}
        found[str(length)] = {"n": strings, "made": made, "sha256": {"strings": digest.hexdigest()}}
    return found
