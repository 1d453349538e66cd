"""Our own corpus of logic: what the released generator could have made with another seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lrbench.tasks.corpus.recipe import Progress, Recipe
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.generator import ACCEPTED, Pairs, draw, unique
from lrbench.tasks.logic.splits import SPLITS, TEST_FILES, TRAIN_FILES, split
from lrbench.tasks.logic.text import pairs
from lrbench.tasks.logic.trees import to_tokens
from lrbench.tasks.logic.vocabulary import LARGEST_SIZE

TRAIN_SHARE = 0.85  # of each size, the pairs drawn first


def by_size(drawn: Pairs) -> dict[str, Pairs]:
    """Return unique pairs as the released files have them: train0..train12 and test0..test12.

    Of each size those that were drawn first are for training: what is drawn often is drawn early,
    so the test files hold the rarer formulas: of the operators in train1 27 % are `not`, in test1
    1 %.
    """
    once = unique(drawn)
    files = {}
    for size in range(LARGEST_SIZE + 1):
        rows = np.flatnonzero(once.sizes == size)
        cut = int(TRAIN_SHARE * len(rows))
        files[f"train{size}"] = once.take(rows[:cut])
        files[f"test{size}"] = once.take(rows[cut:])
    return files


def written(drawn: Pairs) -> Strings:
    """Return pairs as strings of tokens."""
    both = np.stack([drawn.left, drawn.right], 1).ravel()
    return pairs(*to_tokens(both), drawn.labels)


def make_splits(
    names: Sequence[str], seed: int, progress: Progress
) -> Iterator[tuple[str, Strings]]:
    """Draw the corpus of a seed and yield some of its splits."""
    drawn, _ = draw(seed, tell=lambda have: progress("pairs", have, ACCEPTED))
    files = by_size(drawn)
    used = (*TRAIN_FILES, *TEST_FILES.values())
    yield from split(names, {name: written(files[name]) for name in used})


def _settings(_: str) -> dict[str, Any]:
    return {"source": "made", "accepted": ACCEPTED, "train_share": TRAIN_SHARE}


RECIPE = Recipe("logic", version=1, splits=SPLITS, settings=_settings, draw=make_splits)
