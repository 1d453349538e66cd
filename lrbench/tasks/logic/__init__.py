"""Logical inference: how are two propositional formulas related (Bowman, Manning & Potts 2015)."""

from __future__ import annotations

from lrbench.tasks.logic.loading import load
from lrbench.tasks.logic.relations import relation

__all__ = ["load", "relation"]
