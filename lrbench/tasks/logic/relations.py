"""The seven relations of natural logic between two formulas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError
from lrbench.tasks.logic.formulas import EVERYWHERE, Worlds, parse
from lrbench.tasks.logic.vocabulary import RELATIONS


def relation(left_tokens: Sequence[str] | str, right_tokens: Sequence[str] | str) -> str:
    """Return how two formulas are related: one of = < > ^ | v #.

    With A and B the worlds where they are true: = the same; < A within B; > B within A; ^ nowhere
    both, everywhere one; | nowhere both; v everywhere one; # none of these. Raises UserError for
    words that are no formula, and for one that is true everywhere or nowhere: those stand in
    several relations at once, and the data have none.

    Source: MacCartney & Manning 2009; Bowman, Manning & Potts 2015, section 2.
    """
    left, right = parse(left_tokens).worlds, parse(right_tokens).worlds
    for side, worlds in (("left", left), ("right", right)):
        if worlds in (0, EVERYWHERE):
            where = "everywhere" if worlds else "nowhere"
            raise UserError(
                f"the {side} formula is true {where}; relations are between formulas that are true"
                " somewhere and false somewhere"
            )
    return RELATIONS[int(relations(np.array([left], "u8"), np.array([right], "u8"))[0])]


def relations(left: Worlds, right: Worlds) -> NDArray[np.uint8]:
    """Return the class of each pair of sets of worlds, an index into RELATIONS: (n,).

    Neither may be empty or everything (`contingent`).
    """
    both = left & right
    disjoint, exhaustive = both == 0, (left | right) == EVERYWHERE
    conditions = [
        left == right,
        both == left,
        both == right,
        disjoint & exhaustive,
        disjoint,
        exhaustive,
    ]
    return np.select(conditions, range(6), 6).astype(np.uint8)


def contingent(worlds: Worlds) -> NDArray[np.bool_]:
    """Return which sets of worlds are neither empty nor everything."""
    somewhere: NDArray[np.bool_] = (worlds != 0) & (worlds != EVERYWHERE)
    return somewhere
