"""Carried states: tensors, or tuples, lists, named tuples and dicts of them, nested at will.

Of a dict the keys are taken in alphabetical order, so that two states with the same keys agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def leaves(state: Any, strict: bool = False) -> list[Tensor]:
    """Return the tensors of a state. strict: raise TypeError for whatever else is in it."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, dict):
        return [leaf for key in sorted(state) for leaf in leaves(state[key], strict)]
    if isinstance(state, list | tuple):
        return [leaf for part in state for leaf in leaves(part, strict)]
    if strict:
        raise TypeError(f"a state is a tensor or a tuple of tensors, not {type(state).__name__}")
    return []


def changed(change: Callable[..., Any], state: Any, *others: Any) -> Any:
    """Return a state with `change` of every tensor, and of those in its place in `others`.

    Tensors are visited in the order of `leaves`. What is no tensor stays as it is.
    """
    if isinstance(state, Tensor):
        return change(state, *others)
    if isinstance(state, dict):
        made = {k: changed(change, state[k], *(one[k] for one in others)) for k in sorted(state)}
        return {key: made[key] for key in state}
    if isinstance(state, list | tuple):
        parts = [changed(change, *places) for places in zip(state, *others, strict=True)]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state
