"""The splits of logical inference: pairs for training, for selection and for tests.

They are cut from the released files, or from our own: what the released generator could have made
with another seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrbench.errors import UserError, unknown
from lrbench.locations import data_dir
from lrbench.tasks.corpus.recipe import Progress, Recipe, Released, Tell, make
from lrbench.tasks.corpus.recipe import load as load_split
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.formulas import LARGEST_SIZE
from lrbench.tasks.logic.generator import ACCEPTED, FormulaPairs, draw, to_tokens, unique
from lrbench.tasks.logic.released import FILES, FOLDER, check_released, pairs, read_files

TRAINED = 6  # operators of the longer side, at most, that a model is trained on
DEV_EVERY = 10  # of these pairs every tenth is for choosing, the tenth being the first
TRAIN_FILES = tuple(f"train{size}" for size in range(TRAINED + 1))
TEST_FILES = {f"test_{size}": f"test{size}" for size in range(LARGEST_SIZE + 1)}
SPLITS = ("train", "dev", *TEST_FILES)
TRAIN_SHARE = 0.85  # of each size, the pairs drawn first; of our own corpus


def split(names: Sequence[str], files: Mapping[str, Strings]) -> Iterator[tuple[str, Strings]]:
    """Yield splits made of the pairs of files train0..train6, test0..test12 (those needed).

    Source: Shen et al. 2019 (Ordered Memory), whose counter of tens runs over all files.
    """
    training = [name for name in names if name not in TEST_FILES]
    if training:
        trained = Strings.join([files[name] for name in TRAIN_FILES])
        tenth = np.arange(1, len(trained) + 1) % DEV_EVERY == 0
        for name in training:
            yield name, trained.take(tenth if name == "dev" else ~tenth)
    for name in names:
        if name in TEST_FILES:
            yield name, files[TEST_FILES[name]]


def by_size(drawn: FormulaPairs) -> dict[str, FormulaPairs]:
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


def written(drawn: FormulaPairs) -> Strings:
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


MADE = Recipe("logic", version=1, splits=SPLITS, settings=_settings, draw=make_splits)


def released_recipe(folder: Path | None = None) -> Released:
    """Return how splits are made of the files train0..train6, test0..test12 in `folder`.

    Without one it is where `lrbench data fetch logic` puts them.
    """
    settings = {"source": "released", "sha256": {file.name: file.sha256 for file in FILES}}

    def draw(names: Sequence[str], _: int, progress: Progress) -> Iterator[tuple[str, Strings]]:
        source = folder or data_dir() / FOLDER
        files = read_files(source, progress)
        check_released(source)
        yield from split(names, files)

    return Released(
        "logic_released", version=1, splits=SPLITS, settings=lambda _: settings, draw=draw
    )


def store_released(folder: Path, progress: Progress, tell: Tell) -> list[str]:
    """Make the splits of the released files in `folder`; return those that were not there yet.

    Raises UserError for a wrong file and where splits cannot be written.
    """
    return make(released_recipe(folder), SPLITS, 0, False, progress, tell)


RELEASED = released_recipe()
SOURCES = {"released": RELEASED, "made": MADE}
COMMANDS = {"released": "lrbench data fetch logic", "made": "lrbench data make logic"}


def load(split: str, source: str = "released") -> Strings:
    """Return a split: train, dev, test_0 ... test_12; `source` is released or made.

    A row is a pair (`sides` = 2): tokens as in VOCABULARY, label as in RELATIONS. Raises UserError
    for an unknown split or source, and where data are missing or damaged, with the command that
    gets them.
    """
    if source not in SOURCES:
        raise unknown("logic: source", source, SOURCES)
    recipe = SOURCES[source]
    recipe.stored([split])  # an unknown split is told first
    if not (recipe.folder / split).is_dir():
        other = next(name for name in SOURCES if name != source)
        raise UserError(
            f"logic: there is no split '{split}' of the {source} pairs in {recipe.folder}\n"
            f"get them with: {COMMANDS[source]}\n"
            f"or take the {other} ones (source {other}: {COMMANDS[other]}),"
            f" or name the folder that holds {recipe.name}/ with LRBENCH_DATA"
        )
    return load_split(recipe, split)
