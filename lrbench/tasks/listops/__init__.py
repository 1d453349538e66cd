"""ListOps: nested operations on lists of digits (Nangia & Bowman 2018, arXiv:1804.06028).

`evaluate(["[MAX", "5", "[SM", "3", "9", "]", "2", "]"])` is 5; `load("train")` gives the strings of
a split with their values. Round parentheses of the released files are left out, as the models of
Ray Chowdhury & Caragea 2023 read them: 15 symbols.
"""

from __future__ import annotations

from lrbench.tasks.corpus.recipe import load as _load
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.expressions import evaluate
from lrbench.tasks.listops.splits import RECIPE

__all__ = ["evaluate", "load"]


def load(split: str) -> Strings:
    """Return a split or mix, memory-mapped where it is one file.

    Raises UserError for a name that is not known, and where `lrbench data make listops` has not
    been run.
    """
    return _load(RECIPE, split)
