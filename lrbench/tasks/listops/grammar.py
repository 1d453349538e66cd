"""The symbols of ListOps, and the random grammar that its strings come from.

Source: Nangia & Bowman 2018, "ListOps: a diagnostic dataset for latent tree learning"
(arXiv:1804.06028), and the settings of what was made from it since: Havrylov et al. 2019 (length
splits), Ray Chowdhury & Caragea 2023 (argument splits), Tay et al. 2021 (Long Range Arena).
"""

from __future__ import annotations

from dataclasses import dataclass

OPERATORS = ("MIN", "MAX", "MED", "SM")
DIGITS = 10
CLOSE = DIGITS + len(OPERATORS)
# A digit's id is its value; the bracket belongs to the operator's name; "]" ends its arguments.
VOCABULARY = (*map(str, range(DIGITS)), *(f"[{name}" for name in OPERATORS), "]")
MIN, MAX, MED, SM = (VOCABULARY.index(f"[{name}") for name in OPERATORS)
CLASS_NAMES = tuple(map(str, range(DIGITS)))

MIN_ARGUMENTS = 2
P_OPERATOR = 0.25  # the released code calls it VALUE_P, yet it is the probability of an operator


@dataclass(frozen=True)
class Grammar:
    """tree(depth): an operator with probability 1/4 where depth < max_depth, else a digit.

    Digits, the four operators and the numbers of arguments 2..max_arguments are uniform. The root
    has depth 1, so operators nest at most max_depth - 1 deep. The root may be a bare digit.
    """

    max_arguments: int
    max_depth: int


NANGIA = Grammar(max_arguments=5, max_depth=20)
"""ListOps-O: near-IID and length splits."""
