"""Logical inference: how are two propositional formulas related (Bowman, Manning & Potts 2015)."""

from __future__ import annotations

from lrbench.tasks.logic.formulas import relation
from lrbench.tasks.logic.splits import load

__all__ = ["load", "relation"]
