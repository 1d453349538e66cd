"""Logical inference as a task: which of seven relations holds between two formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lrbench.checks import one_of
from lrbench.registry import register_task
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.corpus.task import CorpusTask
from lrbench.tasks.logic.formulas import CLOSE, OPEN, RELATIONS, VOCABULARY, parse, relation
from lrbench.tasks.logic.splits import SOURCES, load


@dataclass
class LogicConfig:
    """Settings of `logic`.

    source: the pairs that were released, or ones we made the same way.
    """

    name: str = "logic"
    source: str = "released"

    def __post_init__(self) -> None:
        one_of("task.source", self.source, tuple(SOURCES))


@register_task("logic", LogicConfig, "relations of formulas (Bowman, Manning & Potts 2015)")
class Logic(CorpusTask):
    """Logical inference: `( not a )` and `( a ( or b ) )` are in the relation v (cover).

    Trained on pairs of up to 6 operators, tested on 7 to 12. Parentheses are tokens. A lookup of
    what both formulas are at their roots (variable, and, or, not) never says anything but the
    commonest relation `#`, so it is no baseline beside `majority`.
    """

    sides = 2
    opening = frozenset([OPEN])
    closing = frozenset([CLOSE])
    marks = frozenset([OPEN, CLOSE])

    def __init__(self, config: LogicConfig) -> None:
        super().__init__(config)
        self.vocabulary = VOCABULARY
        self.class_names = RELATIONS

    def read(self, split: str) -> Strings:
        return load(split, self.config.source)

    def tokens_of(self, text: str) -> list[int]:
        spaced = text.replace("(", " ( ").replace(")", " ) ")
        tokens = super().tokens_of(spaced)
        parse(spaced.split())  # refuses what is no formula
        return tokens

    def answer(self, *sides: Sequence[int]) -> int:
        left, right = ([VOCABULARY[token] for token in side] for side in sides)
        return RELATIONS.index(relation(left, right))
