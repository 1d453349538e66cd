"""Drawing strings until there are so many different ones.

Randomness comes from PCG64, seeded through numpy's SeedSequence by a hash of (seed, purpose). Only
raw 64-bit words are read, whose order numpy promises to keep, and turned into choices by integer
arithmetic; so a seed gives the same strings with every version of numpy and on every platform. The
project's counter-based stream (lrbench/tasks/stream.py) needs to know a string's length before it
draws, and torch; here a corpus is drawn once, in order, and kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.corpus.strings import Strings, gather
from lrbench.tasks.listops.evaluation import evaluate_all
from lrbench.tasks.listops.forest import Forest, grow, keep, lengths, serialise
from lrbench.tasks.listops.grammar import CLASS_NAMES, VOCABULARY, Grammar

BLOCK = 1 << 14  # trees drawn together; what a seed gives depends on it
Flat = tuple[NDArray[np.uint8], NDArray[np.int64]]  # tokens and offsets


def bits(seed: int, *purpose: str | int) -> np.random.PCG64:
    """Return the source of random words of a seed and a purpose."""
    digest = hashlib.sha256(json.dumps([seed, "listops", *purpose]).encode()).digest()
    return np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big")))


def trees(source: np.random.BitGenerator, grammar: Grammar, accepted: range | None = None) -> Flat:
    """Draw one block of the grammar and return those whose length is accepted, in order."""
    forest: Forest = grow(source, BLOCK, grammar)
    if accepted is not None:
        length = lengths(forest)
        forest = keep(forest, (length >= accepted.start) & (length < accepted.stop))
    return serialise(forest)


def unique(
    draw: Callable[[], Flat], wanted: int, progress: Callable[[int], None] = lambda done: None
) -> Strings:
    """Return the first `wanted` different strings that `draw` gives, in order, with their values.

    It must be able to give as many. `progress` is told how many there are.
    """
    seen: set[bytes] = set()
    parts: list[Flat] = []
    while len(seen) < wanted:
        tokens, offsets = draw()
        new = _new(tokens.tobytes(), offsets.tolist(), seen, wanted)
        parts.append(gather(tokens, offsets, np.array(new, dtype=np.int64)))
        progress(len(seen))
    del seen
    tokens = np.concatenate([tokens for tokens, _ in parts])
    ends = np.cumsum([0] + [len(tokens) for tokens, _ in parts])
    begins = [offsets[:-1] + end for (_, offsets), end in zip(parts, ends, strict=False)]
    return labelled(tokens, np.concatenate([*begins, [len(tokens)]]))


def labelled(tokens: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Strings:
    """Return right expressions with their values."""
    return Strings(tokens, offsets, evaluate_all(tokens, offsets), VOCABULARY, CLASS_NAMES)


def _new(text: bytes, offsets: list[int], seen: set[bytes], wanted: int) -> list[int]:
    """Return which strings have not been seen before, and note them, until `wanted` are."""
    new = []
    for place in range(len(offsets) - 1):
        string = text[offsets[place] : offsets[place + 1]]
        if string not in seen:
            seen.add(string)
            new.append(place)
            if len(seen) == wanted:
                break
    return new
