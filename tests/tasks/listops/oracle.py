"""The slow truth: one expression read from the left, by what the paper says of each operator."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence


def value(tokens: Sequence[str]) -> int:
    rest = iter(tokens)
    answer = _next(rest)
    assert answer is not None and next(rest, None) is None
    return answer


def _next(rest: Iterator[str]) -> int | None:
    """Return the value of the expression that comes next, None for a closing bracket."""
    token = next(rest)
    if token == "]":
        return None
    if token.isdigit():
        return int(token)
    arguments = []
    while (argument := _next(rest)) is not None:
        arguments.append(argument)
    name = token.removeprefix("[")
    if name == "SM":
        return sum(arguments) % 10
    if name == "MED":
        return int(statistics.median(arguments))
    return {"MIN": min, "MAX": max}[name](arguments)


def nesting(tokens: Sequence[str]) -> int:
    depth = deepest = 0
    for token in tokens:
        depth += token.startswith("[")
        deepest = max(deepest, depth)
        depth -= token == "]"
    return deepest
