"""ListOps as a corpus that `lrbench data make listops` makes and `load` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lrbench.tasks.corpus.recipe import Progress, Recipe
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.splits import FAMILIES, VIEWS, cut, family_of

VERSION = 1  # raise it whenever the strings of a seed change


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
