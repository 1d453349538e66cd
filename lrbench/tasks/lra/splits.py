"""The splits of Text and Retrieval of Long Range Arena, made of the released files.

    lra_text        train 22,500, dev 2,500, test 25,000 reviews; train_all is train and dev
    lra_retrieval   train, dev, test: a file each (147,086, 18,090 and 17,437 pairs, Gu et al. 2022)

The release of Text has no reviews for selection. Long Range Arena and the released code of Ray
Chowdhury & Caragea 2023 select by the test reviews, so that their numbers are chosen by what they
are measured on. Here dev is the last tenth of the training reviews of each class by id: a block,
not every tenth, so that reviews of one film with neighbouring ids do not stand on both sides.

Nothing is shipped or downloaded: whoever has the files puts them below the folder of data, and
`lrbench data fetch` makes the splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrbench.errors import NoData
from lrbench.locations import data_dir
from lrbench.tasks.corpus.recipe import Progress, Released, Tell, make
from lrbench.tasks.corpus.recipe import load as load_split
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.lra.released import LONGEST, PAIRS, STARS, pairs, reviews

VERSION = 1  # raise it whenever the strings of the same files change
DEV_SHARE = 10  # of the training reviews of a class one in so many, the last ones, is for dev
Draw = Callable[[Sequence[str], Path, Progress], Iterator[tuple[str, Strings]]]


@dataclass(frozen=True)
class Corpus:
    """What a task is made of: files that a user has, and where they are to be had.

    parts: what of the release is needed, below the folder that is given. draw(splits, folder,
    progress) yields those splits.
    """

    name: str
    source: str
    parts: tuple[str, ...]
    inside: str
    draw: Draw
    views: Mapping[str, tuple[str, ...]]

    @property
    def usual(self) -> Path:
        """Where the files are looked for."""
        return data_dir() / "released" / self.name

    def where(self, folder: Path | None = None) -> str:
        """Say where the files come from and go to."""
        return (
            f"take {self.inside} from {self.source}\n"
            f"put it into {folder or self.usual}, then type: lrbench data fetch {self.name}"
            + (f" --folder {folder}" if folder else "")
        )

    def recipe(self, folder: Path | None = None) -> Released:
        """Return how splits are made of the files in `folder`, without one in the usual one."""

        def draw(names: Sequence[str], _: int, progress: Progress) -> Iterator[tuple[str, Strings]]:
            source = folder or self.usual
            missing = [part for part in self.parts if not (source / part).exists()]
            if missing:
                raise NoData(
                    f"{self.name}: no data at hand: there is no {missing[0]} in {source}\n"
                    f"{self.where(folder)}"
                )
            yield from self.draw(names, source, progress)

        settings = {"source": "released", "longest": LONGEST}
        return Released(
            self.name,
            version=VERSION,
            splits=tuple(PAIRS),
            settings=lambda _: settings,
            draw=draw,
            views=self.views,
        )

    def store(self, folder: Path | None, progress: Progress, tell: Tell) -> list[str]:
        """Make the splits of the files in `folder`; return those that were not there yet.

        Raises NoData for a missing file, UserError for a wrong one and where splits cannot be
        written.
        """
        return make(self.recipe(folder), (), 0, False, progress, tell)


def _of_reviews(
    names: Sequence[str], folder: Path, progress: Progress
) -> Iterator[tuple[str, Strings]]:
    """Yield splits of the folder that holds aclImdb/."""
    if training := [name for name in names if name != "test"]:
        trained = reviews(folder / "aclImdb" / "train", progress)
        last = for_dev(trained)
        for name in training:
            yield name, trained.take(last if name == "dev" else ~last)
    if "test" in names:
        yield "test", reviews(folder / "aclImdb" / "test", progress)


def for_dev(trained: Strings) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell of each training review whether it is for dev: the last tenth of each class (n,)."""
    chosen = np.zeros(len(trained), dtype=np.bool_)
    for label in range(len(trained.class_names)):
        rows = np.flatnonzero(trained.labels == label)
        chosen[rows[len(rows) - len(rows) // DEV_SHARE :]] = True
    return chosen


def _of_pairs(
    names: Sequence[str], folder: Path, progress: Progress
) -> Iterator[tuple[str, Strings]]:
    """Yield splits of the folder that holds the three files."""
    for name in names:
        yield name, pairs(folder / _file(name), progress)


def _file(split: str) -> str:
    return f"new_aan_pairs.{PAIRS[split]}.tsv"


CORPORA = {
    "lra_text": Corpus(
        name="lra_text",
        source="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        parts=tuple(f"aclImdb/{half}/{name}" for half in ("train", "test") for name in STARS),
        inside="the folder aclImdb",
        draw=_of_reviews,
        views={"train_all": ("train", "dev")},
    ),
    "lra_retrieval": Corpus(
        name="lra_retrieval",
        source="https://storage.googleapis.com/long-range-arena/lra_release.gz (a tar file)",
        parts=tuple(map(_file, PAIRS)),
        inside="new_aan_pairs.train.tsv, .eval.tsv and .test.tsv (folder tsv_data)",
        draw=_of_pairs,
        views={},
    ),
}
TEXT, RETRIEVAL = (corpus.recipe() for corpus in CORPORA.values())


def load(name: str, split: str) -> Strings:
    """Return a split or view of `lra_text` or `lra_retrieval`, documents as they are stored.

    Raises UserError for an unknown split and damaged data, NoData where they are missing, with the
    way to get them.
    """
    corpus, recipe = CORPORA[name], CORPORA[name].recipe()
    needed: list[str] = recipe.stored([split])  # an unknown split is told first
    missing = [each for each in needed if not (recipe.folder / each).is_dir()]
    if missing:
        raise NoData(
            f"{name}: no data at hand: there is no split '{missing[0]}' in {recipe.folder}\n"
            f"{corpus.where()}\n"
            f"or name the folder that holds {name}/ with LRBENCH_DATA"
        )
    return load_split(recipe, split)


def shortened(strings: Strings, longest: int) -> Strings:
    """Return strings of which no more than `longest` first tokens are left."""
    if longest >= strings.lengths.max(initial=0):
        return strings
    parts = []
    for part in strings.pieces():  # positions take eight times the memory of tokens
        lengths = np.diff(part.offsets)
        position = np.arange(len(part.tokens)) - np.repeat(part.offsets[:-1], lengths)
        parts.append((part.tokens[position < longest], np.minimum(lengths, longest)))
    tokens, lengths = (np.concatenate(each) for each in zip(*parts, strict=True))
    made: dict[str, Any] = {**strings.made, "cut": longest}
    return Strings(
        tokens=tokens,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        labels=strings.labels,
        vocabulary=strings.vocabulary,
        class_names=strings.class_names,
        sides=strings.sides,
        made=made,
    )
