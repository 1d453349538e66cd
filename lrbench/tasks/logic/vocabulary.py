"""The words of formulas and the names of relations, and the small numbers that stand for them."""

from __future__ import annotations

VARIABLES = ("a", "b", "c", "d", "e", "f")
WORDS = ("(", ")", *VARIABLES, "and", "or", "not")  # index = token
OPEN, CLOSE, AND, OR, NOT = (WORDS.index(word) for word in ("(", ")", "and", "or", "not"))
FIRST_VARIABLE = WORDS.index(VARIABLES[0])
FIRST_OPERATOR = AND  # tokens from here on are operators

RELATIONS = ("=", "<", ">", "^", "|", "v", "#")  # index = class
LARGEST_SIZE = 12  # operators of a pair's longer side; this size stands for all that are larger
