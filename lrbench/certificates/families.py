"""Infinite words of a machine, w v v v ...: a short prefix and a short pattern for ever."""

from __future__ import annotations

from collections.abc import Iterator

from lrbench.certificates.spelling import Word
from lrbench.tasks.machine import NOWHERE, Machine

# (longest prefix, longest pattern), the first of which there are not too many is taken
SIZES = ((3, 4), (3, 3), (2, 3), (2, 2), (1, 2), (1, 1), (0, 1))


def endless_words(machine: Machine, most: int) -> list[tuple[Word, Word]]:
    """Return (prefix, pattern) of each infinite word once, of the largest sizes with `most`."""
    edges = machine.table.tolist()
    for longest_prefix, longest_pattern in SIZES:
        words = []
        for word in _valid(machine.start, edges, longest_prefix, longest_pattern):
            words.append(word)
            if len(words) > most:
                break
        if len(words) <= most:
            return words
    return []


def _valid(
    start: int, edges: list[list[int]], prefix: int, pattern: int
) -> Iterator[tuple[Word, Word]]:
    """Yield valid w v v v ... in its one shortest writing.

    v is no power of a shorter pattern, and does not end as w does (or w could be shorter).
    """
    for before, at in _paths(edges, start, prefix):
        for repeated, end in _paths(edges, at, pattern):
            if not repeated or not _primitive(repeated):
                continue
            if before and before[-1] == repeated[-1]:
                continue
            if _goes_round(edges, end, repeated):
                yield before, repeated


def _paths(edges: list[list[int]], start: int, longest: int) -> Iterator[tuple[Word, int]]:
    level: list[tuple[Word, int]] = [((), start)]
    yield from level
    for _ in range(longest):
        level = [
            ((*word, symbol), to)
            for word, at in level
            for symbol, to in enumerate(edges[at])
            if to != NOWHERE
        ]
        yield from level


def _goes_round(edges: list[list[int]], at: int, pattern: Word) -> bool:
    """Whether `pattern` can be repeated for ever from a state."""
    for _ in range(len(edges) + 1):
        for symbol in pattern:
            at = edges[at][symbol]
            if at == NOWHERE:
                return False
    return True


def _primitive(word: Word) -> bool:
    """Whether a word is no power of a shorter one."""
    return all(
        len(word) % size or word[:size] * (len(word) // size) != word
        for size in range(1, len(word))
    )
