"""The splits of ListOps: the grammar of each, how many strings, which lengths; and their making.

Families of splits are cut from one set of different strings, so none is in two of them:

    train, dev, near_iid   100,000 of the grammar of Nangia & Bowman, at random 90,000 and 10,000;
                           of the 90,000 the first 1,000 are dev, of the others those of at most 100
                           tokens train (train_long holds the rest, which only the mix has)
    lra_train, _dev, _test 100,000 of Long Range Arena's settings: 96,000, 2,000, 2,000 in order

and by themselves, 2,000 each: len_200_300 ... len_900_1000 (Havrylov et al. 2019, lengths strictly
between), args_10, args_15 and the control args_iid (Ray Chowdhury & Caragea 2023, 100 to 1,000
tokens, depth 9). There, too, numbers of arguments are uniform from 2: unseen ones are only part of
what is asked. mix_train is the 90,000 and lra_train; mix_dev and mix_test are those of lra.

The released training file cannot be had, so strings are drawn anew: as many different ones as it
had (100,000), because that is what sets the share of short ones, all of which are in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbench.tasks.corpus.recipe import Progress, Recipe
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.conditional import draw_given_length
from lrbench.tasks.listops.draw import NANGIA, Grammar, bits, trees, unique

VERSION = 1  # raise it whenever the strings of a seed change
TEST, DEV, LONGEST_TRAINED = 10_000, 1_000, 100
LRA_DEV = LRA_TEST = 2_000


@dataclass(frozen=True)
class Family:
    """Strings drawn together: `size` different ones of a grammar, with lengths in `accepted`.

    `exact` says to draw given the length, instead of waiting for strings that are accepted.
    """

    splits: tuple[str, ...]
    grammar: Grammar
    size: int
    accepted: range | None = None
    exact: bool = False

    @property
    def name(self) -> str:
        """How it is named in progress, and its randomness."""
        return self.splits[0]

    def draw(self, seed: int, progress: Callable[[int], None]) -> Strings:
        """Draw the strings of a seed, in order."""
        source = bits(seed, self.name)
        if self.exact:
            accepted = self.accepted
            assert accepted is not None
            return unique(
                lambda: draw_given_length(source, self.size, self.grammar, accepted),
                self.size,
                progress,
            )
        return unique(lambda: trees(source, self.grammar, self.accepted), self.size, progress)


NANGIA_SPLITS = Family(("train", "dev", "train_long", "near_iid"), NANGIA, 100_000)
LRA_SPLITS = Family(
    ("lra_train", "lra_dev", "lra_test"), Grammar(10, 10), 100_000, range(501, 2000)
)
FAMILIES = (
    NANGIA_SPLITS,
    *(
        Family((f"len_{low}_{low + 100}",), NANGIA, 2_000, range(low + 1, low + 100), exact=True)
        for low in range(200, 1000, 100)
    ),
    *(
        Family((name,), Grammar(arguments, 9), 2_000, range(100, 1001), exact=True)
        for name, arguments in (("args_10", 10), ("args_15", 15), ("args_iid", 5))
    ),
    LRA_SPLITS,
)
VIEWS = {
    "mix_train": ("dev", "train", "train_long", "lra_train"),
    "mix_dev": ("lra_dev",),
    "mix_test": ("lra_test",),
}


def family_of(split: str) -> Family:
    """Return the family a split is cut from."""
    return next(family for family in FAMILIES if split in family.splits)


def cut(family: Family, strings: Strings, seed: int) -> Iterator[tuple[str, Strings]]:
    """Yield the splits of a family with their strings."""
    if family.splits == NANGIA_SPLITS.splits:
        yield from _cut_nangia(strings, seed)
    elif family.splits == LRA_SPLITS.splits:
        ends = len(strings) - LRA_DEV - LRA_TEST, len(strings) - LRA_TEST
        yield "lra_train", strings.part(0, ends[0])
        yield "lra_dev", strings.part(ends[0], ends[1])
        yield "lra_test", strings.part(ends[1], len(strings))
    else:
        yield family.name, strings


def _cut_nangia(strings: Strings, seed: int) -> Iterator[tuple[str, Strings]]:
    """Cut them in a random order, that of random words."""
    words = bits(seed, "train", "order").random_raw(len(strings))
    order = np.argsort(words, kind="stable")
    train_file, test = order[:-TEST], order[-TEST:]
    dev, rest = train_file[:DEV], train_file[DEV:]
    short = strings.lengths[rest] <= LONGEST_TRAINED
    yield "train", strings.take(rest[short])
    yield "dev", strings.take(dev)
    yield "train_long", strings.take(rest[~short])
    yield "near_iid", strings.take(test)


def settings(split: str) -> dict[str, Any]:
    """Return what the strings of a split depend on."""
    family = family_of(split)
    accepted = family.accepted
    return {
        "max_arguments": family.grammar.max_arguments,
        "max_depth": family.grammar.max_depth,
        "unique": family.size,
        "lengths": None if accepted is None else [accepted.start, accepted.stop - 1],
    }


def draw(splits: Sequence[str], seed: int, progress: Progress) -> Iterator[tuple[str, Strings]]:
    """Yield splits with their strings; a family is drawn once for those of its splits."""
    for family in FAMILIES:
        if wanted := set(family.splits) & set(splits):

            def tell(done: int, family: Any = family) -> None:
                progress(f"listops/{family.name}", done, family.size)

            for split, strings in cut(family, family.draw(seed, tell), seed):
                if split in wanted:
                    yield split, strings


RECIPE = Recipe(
    name="listops",
    version=VERSION,
    splits=tuple(split for family in FAMILIES for split in family.splits),
    settings=settings,
    draw=draw,
    views=VIEWS,
)
