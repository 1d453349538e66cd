"""ListOps as a task: the value of nested operations on lists of digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lrbench.errors import UserError, unknown
from lrbench.locations import data_dir
from lrbench.registry import register_task
from lrbench.tasks.corpus.recipe import load
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.tasks.listops.baselines import baselines
from lrbench.tasks.listops.expressions import (
    CLASS_NAMES,
    CLOSE,
    DIGITS,
    VOCABULARY,
    check_nesting,
    evaluate,
)
from lrbench.tasks.listops.released import FILES, FOLDER, from_file
from lrbench.tasks.listops.splits import RECIPE, VERSION

RELEASED_TEST = "released_test"


@dataclass
class ListopsConfig:
    """`listops` has no settings; which splits are read is up to the protocol."""

    name: str = "listops"


@register_task("listops", ListopsConfig, "nested list operations (Nangia & Bowman 2018)")
class Listops(CorpusTask):
    """ListOps: `[MAX 5 [SM 3 9 ] 2 ]` is 5. Its splits: lrbench/tasks/listops/splits.py.

    A split may also be a file of the released formats, d20s or LRA's, by its path (ending in .tsv);
    `released_test` is the released test file, which `lrbench data fetch listops_test` gets.

    Elsewhere: LRA's ListOps has strings of 500 to 2,000 tokens and up to ten arguments, and is the
    splits lra_*; some artefacts keep the round parentheses, which are left out here.
    """

    version = VERSION
    opening = frozenset(range(DIGITS, CLOSE))
    closing = frozenset([CLOSE])
    marks = frozenset([CLOSE])

    def __init__(self, config: ListopsConfig) -> None:
        super().__init__(config)
        self.vocabulary = VOCABULARY
        self.class_names = CLASS_NAMES

    def read(self, split: str) -> Strings:
        if split == RELEASED_TEST:
            return from_file(_fetched())
        if split.endswith(".tsv"):
            return from_file(Path(split))
        made = (*RECIPE.splits, *RECIPE.views)
        if split not in made:
            raise unknown("listops: split", split, (*made, RELEASED_TEST))
        return load(RECIPE, split)

    def baselines(self, split: str, trained_on: str) -> Mapping[str, float]:
        return baselines(self.load(trained_on), self.load(split))

    def tokens_of(self, text: str) -> list[int]:
        tokens = super().tokens_of(text.replace("]", " ] "))
        check_nesting(tokens)
        return tokens

    def answer(self, *sides: Sequence[int]) -> int:
        return evaluate([VOCABULARY[token] for token in sides[0]])


def _fetched() -> Path:
    path = data_dir() / FOLDER / FILES[0].name
    if not path.is_file():
        raise UserError(
            f"listops: there is no {path}\nget it with: lrbench data fetch listops_test"
        )
    return path
