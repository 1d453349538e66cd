"""Trees read out of encoders whose merges are soft: what they would be if each were all or nothing.

Neither model has a tree of its own; these are the nearest ones. CRvNN's tokens merge into their
right neighbour once half of them is gone. Ordered Memory writes to the slot that most of its
position is at, which then is exact: with hard positions slots hold subtrees.
"""

from __future__ import annotations

from lrbench.encoders.base import Tree

GONE = 0.5  # a token with less existence has been merged


def by_existence(history: list[list[float]], tokens: int) -> Tree:
    """Return the tree of existences after each step of a string of `tokens` (CRvNN).

    A token that falls to 0.5 or below merges into the next one that stands, the left one of two
    first. What stands at the end, but for the last token, merges then: those that exist least
    first.
    """
    trees: list[Tree] = list(range(tokens))
    standing = list(range(tokens))

    def merge(token: int) -> None:
        at = standing.index(token)
        right = standing[at + 1]
        trees[right] = (trees[token], trees[right])
        del standing[at]

    for existence in history:
        for token in standing[:-1]:
            if existence[token] <= GONE:
                merge(token)
    last = history[-1] if history else [1.0] * tokens
    for token in sorted(standing[:-1], key=last.__getitem__):
        merge(token)
    return trees[standing[0]]


def by_slots(positions: list[int]) -> Tree:
    """Return the tree of a string whose token t > 0 is written at slot positions[t - 1].

    Slots count from the last one: 0, 1, ... A token is composed with what its slot and those after
    it remember. No slot is skipped: one further than the slot before is the furthest.
    """
    candidates: list[Tree] = [0]  # of slots 0 .. the slot before; of all others the token before
    memory: list[Tree] = []
    for token, slot in enumerate(positions, start=1):
        slot = min(slot, len(candidates) if token > 1 else 0)
        before: list[Tree] = [*candidates, token - 1]
        memory = [*memory[:slot], before[slot]]
        node: Tree = token
        candidates = []
        for remembered in reversed(memory):
            node = (remembered, node)
            candidates.insert(0, node)
    return candidates[0]
