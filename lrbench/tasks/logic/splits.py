"""Which pairs are trained on, chosen by and tested on, of the released files and of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.vocabulary import LARGEST_SIZE

TRAINED = 6  # operators of the longer side, at most, that a model is trained on
DEV_EVERY = 10  # of these pairs every tenth is for choosing, the tenth being the first
TRAIN_FILES = tuple(f"train{size}" for size in range(TRAINED + 1))
TEST_FILES = {f"test_{size}": f"test{size}" for size in range(LARGEST_SIZE + 1)}
SPLITS = ("train", "dev", *TEST_FILES)


def split(names: Sequence[str], files: Mapping[str, Strings]) -> Iterator[tuple[str, Strings]]:
    """Yield splits made of the pairs of files train0..train6, test0..test12 (those needed).

    Source: Shen et al. 2019 (Ordered Memory), whose counter of tens runs over all files.
    """
    training = [name for name in names if name not in TEST_FILES]
    if training:
        pairs = Strings.join([files[name] for name in TRAIN_FILES])
        tenth = np.arange(1, len(pairs) + 1) % DEV_EVERY == 0
        for name in training:
            yield name, pairs.take(tenth if name == "dev" else ~tenth)
    for name in names:
        if name in TEST_FILES:
            yield name, files[TEST_FILES[name]]
