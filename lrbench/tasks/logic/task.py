"""Logical inference as a task: which of seven relations holds between two formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lrbench.checks import one_of
from lrbench.registry import register_task
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.tasks.logic.baselines import baselines
from lrbench.tasks.logic.formulas import parse
from lrbench.tasks.logic.loading import RECIPES, load
from lrbench.tasks.logic.relations import relation
from lrbench.tasks.logic.vocabulary import RELATIONS, WORDS


@dataclass
class LogicConfig:
    """Settings of `logic`: the pairs that were released, or ones we made the same way."""

    name: str = "logic"
    source: str = "released"

    def __post_init__(self) -> None:
        one_of("task.source", self.source, tuple(RECIPES))


@register_task("logic", LogicConfig, "relations of formulas (Bowman, Manning & Potts 2015)")
class Logic(CorpusTask):
    """Logical inference: `( not a )` and `( a ( or b ) )` are in the relation v (cover).

    Trained on pairs of up to 6 operators, tested on 7 to 12. Parentheses are tokens.
    """

    sides = 2

    def __init__(self, config: LogicConfig) -> None:
        super().__init__(config)
        self.vocabulary = WORDS
        self.class_names = RELATIONS

    def read(self, split: str) -> Strings:
        return load(split, self.config.source)

    def baselines(self, split: str, trained_on: str) -> Mapping[str, float]:
        return baselines(self.load(trained_on), self.load(split))

    def tokens_of(self, text: str) -> list[int]:
        spaced = text.replace("(", " ( ").replace(")", " ) ")
        tokens = super().tokens_of(spaced)
        parse(spaced.split())  # refuses what is no formula
        return tokens

    def answer(self, *sides: Sequence[int]) -> int:
        left, right = ([WORDS[token] for token in side] for side in sides)
        return RELATIONS.index(relation(left, right))
