"""Hashes of the data: the first strings of a run's training and test streams, with answers."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import Tensor

from lrbench.bundles.splits import over_corpus, split_identities
from lrbench.config import Config
from lrbench.schema import config_from
from lrbench.tasks import make_task

ROWS = 16


def data_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return what identifies the data of a run: `string_hashes`, or `split_identities`."""
    return split_identities(result) if over_corpus(result) else string_hashes(result)


def string_hashes(result: dict[str, Any]) -> dict[str, str]:
    """Return {"train 40": sha256, "test 500": sha256} of a run's first 16 strings."""
    config: Config = config_from(result["config"])
    seed = result["seed"] if config.data_seed is None else config.data_seed
    protocol = config.protocol
    wanted = [("train", (), protocol.train_length, 1)]
    wanted += [("test", (length,), length, 0) for length in protocol.test_lengths]  # type: ignore[misc]
    task = make_task(config.task)
    hashes = {}
    for purpose, key, length, step in wanted:
        stream = task.stream(seed, purpose, *key)
        rows = min(ROWS, task.available(stream) or ROWS)
        batch = task.sample(stream, step, rows, length, "cpu")
        digest = hashlib.sha256()
        for part in (batch.tokens, batch.targets):
            digest.update(part.to("cpu").numpy().astype(_kind(part)).tobytes())
        hashes[f"{purpose} {length}"] = digest.hexdigest()
    return hashes


def _kind(part: Tensor) -> str:
    """Return the type whose little-endian bytes are hashed."""
    return "<f4" if part.is_floating_point() else "<i8"
