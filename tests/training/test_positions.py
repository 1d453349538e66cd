"""Answers at every position are counted as a loop over strings would."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import one_hot

from lrbench.tasks.base import IGNORE
from lrbench.training.positions import PositionCounts


@pytest.mark.parametrize("cut", [1, 3, 12])
def test_counts_are_those_of_a_loop(cut: int) -> None:
    generator = torch.Generator().manual_seed(0)
    strings, length, classes = 40, 12, 3
    targets = torch.randint(0, classes, (strings, length), generator=generator)
    wrong = torch.rand(strings, length, generator=generator) < 0.15
    answers = torch.where(wrong, (targets + 1) % classes, targets)
    targets[torch.rand(strings, length, generator=generator) < 0.3] = IGNORE
    logits = one_hot(answers, classes).float()
    logits[5, 4] = torch.nan  # a state that overflowed answers nothing
    answers[5, 4] = -1

    counts = PositionCounts(length)
    for first in (0, 25):
        part = slice(first, 25 if first == 0 else strings)
        counts.begin(len(targets[part]))
        for start in range(0, length, cut):
            piece = slice(start, start + cut)
            counts.add(logits[part, piece], targets[part, piece])

    right, asked, prefixes = 0, 0, [0] * length
    for given, wanted in zip(answers.tolist(), targets.tolist(), strict=True):
        alive = True
        for place in range(length):
            if wanted[place] != IGNORE:
                asked += 1
                right += given[place] == wanted[place]
                alive = alive and given[place] == wanted[place]
            prefixes[place] += alive
    assert 0 < prefixes[-1] < strings
    assert counts.token == right / asked
    assert [counts.prefix(t + 1) for t in range(length)] == [n / strings for n in prefixes]
    assert counts.sequence == prefixes[-1] / strings
    assert [t for t, _ in counts.curve(length)] == [1, 2, 3, 4, 6, 8, 12]


def test_the_curve_ends_at_the_last_position() -> None:
    counts = PositionCounts(500)
    counts.begin(2)
    counts.add(torch.zeros(2, 500, 2), torch.zeros(2, 500, dtype=torch.int64))
    reported = dict(counts.curve(500))
    assert set(reported.values()) == {1.0}
    assert list(reported)[:7] == [1, 2, 3, 4, 6, 8, 12]
    assert list(reported)[-3:] == [256, 384, 500]


def test_a_start_symbol_counts_in_no_prefix() -> None:
    counts = PositionCounts(5)  # a start symbol and four letters
    counts.begin(4)
    right = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 1, 1, 0], [0, 1, 1, 1, 1]])
    counts.add(one_hot(1 - right, 2).float(), torch.zeros(4, 5, dtype=torch.int64))
    assert dict(counts.curve(4)) == {1: 0.75, 2: 0.5, 3: 0.5, 4: 0.25}
    assert counts.sequence == 0.25
