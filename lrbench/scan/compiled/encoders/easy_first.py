"""A step of the search over easy-first trees: the chosen merges, and tables of pairs after them.

`lrbench/encoders/trees/search.py` says what is computed. n strings have B beams of P
pairs each before a step, `beams` of P - 1 after it. Tables are C-contiguous; what is filled comes
last.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled, part

LOWEST = -np.inf


@part
def insert(value, slot, values, slots, count):  # type: ignore[no-untyped-def]
    """Put a value among the `count` largest, largest first; of equal ones the earlier is first."""
    at = count
    while at > 0 and values[at - 1] < value:
        at -= 1
    if at == count:
        return
    for i in range(count - 1, at, -1):
        values[i] = values[i - 1]
        slots[i] = slots[i - 1]
    values[at] = value
    slots[at] = slot


@cache
def choose_loop(noisy: bool, shares: bool, dtype: str) -> Loop:
    """Return the loop of one step's choice.

    (numbers (n, B, P), scores of all pairs, left (n,), scores and validity of beams (n, B),
    proposals of a beam, floor, noise of pairs (n, B, P) and of proposals (n, B K); parents,
    positions, scores, valid (n, beams); added to: shares of softmax (n, B, P))
    """

    @compiled(int(noisy), int(shares), dtype)
    def easy_first_choose(  # type: ignore[no-untyped-def]
        numbers, scores, left, before, possible, each, floor, pair_noise, beam_noise,
        parents, positions, after, valid, had,
    ):  # fmt: skip
        strings, width, count = numbers.shape
        beams = parents.shape[1]
        best, slots = np.empty(each), np.empty(width * each, np.int64)
        proposed = np.empty(width * each, before.dtype)
        logits, shared = np.empty(count, before.dtype), np.empty(count, before.dtype)
        kept, order = np.empty(beams), np.empty(beams, np.int64)
        for n in range(strings):
            real = left[n]
            for b in range(width):
                top = LOWEST
                for j in range(real):
                    logits[j] = scores[numbers[n, b, j]]
                    top = max(top, logits[j])
                total = 0.0
                found = slots[b * each : (b + 1) * each]
                best[:] = LOWEST
                for i in range(each):
                    found[i] = i  # what is not valid, by its place
                for j in range(real):
                    value = logits[j]
                    shared[j] = np.exp(value - top)
                    total += shared[j]
                    if noisy:
                        value += pair_noise[n, b, j]
                    if value > best[each - 1]:
                        insert(value, j, best, found, each)
                logs = top + np.log(total)
                if shares:
                    for j in range(real):
                        had[n, b, j] += shared[j] / total
                for i in range(each):
                    log = floor
                    if i < real:
                        log = max(floor, logits[found[i]] - logs)
                    else:
                        found[i] = i
                    proposed[b * each + i] = before[n, b] + log
            if width * each <= beams:
                for i in range(beams):
                    order[i] = i
            else:
                kept[:] = LOWEST
                for invalid in range(2):  # those that are not valid come last
                    for i in range(width * each):
                        if possible[n, i // each] == (invalid == 0):
                            value = proposed[i] - invalid * 1e30
                            if noisy and invalid == 0:
                                value += beam_noise[n, i]
                            if value > kept[beams - 1]:
                                insert(value, i, kept, order, beams)
            for i in range(beams):
                parents[n, i] = order[i] // each
                positions[n, i] = slots[order[i]]
                after[n, i] = proposed[order[i]]
                valid[n, i] = possible[n, order[i] // each]

    return easy_first_choose


@cache
def move_loop(shares: bool, dtype: str) -> Loop:
    """Return the loop that merges pairs in tables.

    (numbers (n, B, P), shares (n, B, P), parents, positions (n, beams), pairs that are new left and
    right of a merge (n, beams, 2); numbers and shares (n, beams, P - 1))
    """

    @compiled(int(shares), dtype)
    def easy_first_move(  # type: ignore[no-untyped-def]
        numbers, had, parents, positions, made, numbers_after, had_after
    ):
        strings, _, count = numbers.shape
        beams = parents.shape[1]
        for n in range(strings):
            for b in range(beams):
                parent, position = parents[n, b], positions[n, b]
                for j in range(position):
                    numbers_after[n, b, j] = numbers[n, parent, j]
                for j in range(position, count - 1):
                    numbers_after[n, b, j] = numbers[n, parent, j + 1]
                if position > 0:
                    numbers_after[n, b, position - 1] = made[n, b, 0]
                if position < count - 1:
                    numbers_after[n, b, position] = made[n, b, 1]
                if shares:
                    for j in range(position):
                        had_after[n, b, j] = had[n, parent, j]
                    for j in range(position, count - 1):
                        had_after[n, b, j] = had[n, parent, j + 1]
                    if position > 0:
                        had_after[n, b, position - 1] = 0
                    if position < count - 1:
                        had_after[n, b, position] = 0

    return easy_first_move
