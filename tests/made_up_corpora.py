"""Corpora of a few short strings, where `lrbench data make` and `fetch` would put real ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.tasks.corpus.storage import write as write_split
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops import splits as listops
from lrbench.tasks.listops.draw import Grammar, bits, trees, unique
from lrbench.tasks.logic import relation
from lrbench.tasks.logic.formulas import RELATIONS, VOCABULARY
from lrbench.tasks.logic.splits import RELEASED
from lrbench.tasks.lra.released import FEELINGS, LINKS, Documents
from lrbench.tasks.lra.splits import RETRIEVAL, TEXT
from lrbench.training.procedure import make_trial

FORMULAS = ("a", "b", "( not a )", "( a ( and b ) )", "( a ( or b ) )", "( ( not a ) ( or b ) )")


SMALL = {
    **{"task": "listops", "model": "bbt_grc", "model.width": "8", "protocol.batch_size": "7"},
    **{"protocol.bucket": "2", "protocol.epochs": "3", "protocol.test_splits": "[near_iid]"},
}


def small_trial(*arguments: str, seed: int = 0) -> EpochTrial:
    """Return a run over 24 strings, in batches of 7, 7, 7 and 3; `arguments` change `SMALL`."""
    chosen = SMALL | dict(argument.split("=", 1) for argument in arguments)
    made = make_trial(composed([f"{key}={value}" for key, value in chosen.items()]), seed)
    assert isinstance(made, EpochTrial)
    return made


def write(folder: Path, strings: int = 24) -> Path:
    """Write every split of listops, the released logic and Long Range Arena's documents below
    `folder`; return it.
    """
    drawn = list(pairwise(range(0, (len(listops.RECIPE.splits) + 1) * strings, strings)))
    source = bits(0, "made up")
    grammar = Grammar(max_arguments=3, max_depth=4)
    trees_drawn = unique(lambda: trees(source, grammar), drawn[-1][1])
    for split, (start, stop) in zip(listops.RECIPE.splits, drawn, strict=True):
        part = trees_drawn.take(np.arange(start, stop))
        made = replace(part, made=listops.RECIPE.made(split, 0))
        write_split(folder / "listops" / split, made)
    recipe = RELEASED
    pairs = _pairs()
    for split in recipe.splits:
        write_split(folder / recipe.name / split, replace(pairs, made=recipe.made(split, 0)))
    for recipe, classes, sides in ((TEXT, FEELINGS, 1), (RETRIEVAL, LINKS, 2)):
        documents = _documents(classes, sides, strings)
        for split in recipe.splits:
            made = replace(documents, made=recipe.made(split, 0))
            write_split(folder / recipe.name / split, made)
    return folder


def _documents(classes: tuple[str, ...], sides: int, count: int) -> Strings:
    """Documents of one letter each, whose class the letter tells; of pairs, the second's."""
    found = Documents(classes, sides)
    for row in range(count):
        found.add(row % 2, *(b"xy"[row % 2 : row % 2 + 1] * (row % 5 + 1) for _ in range(sides)))
    return found.strings()


def _pairs() -> Strings:
    sides = [[VOCABULARY.index(word) for word in text.split()] for text in FORMULAS]
    both = list(product(sides, repeat=2))
    flat = [side for pair in both for side in pair]
    labels = [
        RELATIONS.index(relation(*([VOCABULARY[token] for token in side] for side in pair)))
        for pair in both
    ]
    return Strings(
        tokens=np.concatenate(flat).astype(np.uint8),
        offsets=np.cumsum([0, *map(len, flat)]),
        labels=np.array(labels, dtype=np.uint8),
        vocabulary=VOCABULARY,
        class_names=RELATIONS,
        sides=2,
    )
