"""The splits of logic on disk: the released pairs, or ones we made."""

from __future__ import annotations

from lrbench.errors import UserError, unknown
from lrbench.tasks.corpus.recipe import load as load_split
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic import made, released

RECIPES = {"released": released.RECIPE, "made": made.RECIPE}
COMMANDS = {"released": "lrbench data fetch logic", "made": "lrbench data make logic"}


def load(split: str, source: str = "released") -> Strings:
    """Return a split: train, dev, test_0 ... test_12; `source` is released or made.

    A row is a pair (`sides` = 2): tokens as in `vocabulary.WORDS`, label as in RELATIONS. Raises
    UserError for an unknown split or source, and where data are missing or damaged, with the
    command that gets them.
    """
    if source not in RECIPES:
        raise unknown("logic: source", source, RECIPES)
    recipe = RECIPES[source]
    recipe.stored([split])  # an unknown split is told first
    if not (recipe.folder / split).is_dir():
        other = next(name for name in RECIPES if name != source)
        raise UserError(
            f"logic: there is no split '{split}' of the {source} pairs in {recipe.folder}\n"
            f"get them with: {COMMANDS[source]}\n"
            f"or take the {other} ones (source {other}: {COMMANDS[other]}),"
            f" or name the folder that holds {recipe.name}/ with LRBENCH_DATA"
        )
    return load_split(recipe, split)
