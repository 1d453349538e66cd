"""The interface to numba: the compilation of functions into loops.

Compiled code is kept on disk, in `__pycache__` beside the source or, where that cannot be written,
in the user's cache. numba notices when the file of a function changes, but neither when a function
or constant of another file does, nor that two processes are adding to one cache file at a time. So
each function gets a cache file of its own for each set of constants and number type and each state
of what it is made from, the processor and our options included (`state_of`): processes can then
only ever write the same thing over each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import Tensor

PACKAGE = __name__.split(".")[0]

# Without Python's lock, others of a group may go on. Nobody calls a loop as a function of C, and to
# make it one takes LLVM a while.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
PART: dict[str, Any] = {"error_model": "numpy", "forceinline": True}

Loop = Callable[..., Any]


def compiled(*constants: int | str) -> Callable[[Loop], Loop]:
    """Return a decorator that compiles a function at its first call, or finds it on disk.

    constants: whatever tells this function from others made by the same lines, such as a block
        size and the name of the number type. A function must be called with one set of types.
    """
    from numba import njit

    def decorate(function: Loop) -> Loop:
        parts = [function.__name__, *map(str, constants), state_of(function)]
        function.__qualname__ = "-".join(parts)  # names the cache file
        try:
            return njit(function, cache=True, **OPTIONS)  # type: ignore[no-any-return]
        except RuntimeError:  # nowhere to keep a cache: compile in each process
            return njit(function, **OPTIONS)  # type: ignore[no-any-return]

    return decorate


class Later:
    """A function that loops call, which numba gets to see when the first of them is compiled.

    So a file with loops is imported without numba: importing numba takes half a second, and it need
    not be installed.
    """

    def __init__(self, function: Loop, make: Callable[[Loop], Any]) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.function, self._make = function, make

    def __call__(self, *arguments: Any) -> Any:
        """Raise TypeError: there is nothing to call but in a compiled loop."""
        raise TypeError(f"{self.__name__} is a part of compiled loops, and no function of Python")

    def __deepcopy__(self, memo: object) -> Later:  # numba copies the statements it works on
        return self

    @cached_property
    def made(self) -> Any:
        """What numba makes of the function."""
        return self._make(self.function)

    @property
    def _numba_type_(self) -> Any:
        """The type by which numba finds `made` where a loop names this object."""
        from numba.core.registry import cpu_target

        context = cpu_target.typing_context
        made = self.made
        context.refresh()  # so that it has heard of what was just made
        return context.resolve_value_type(made)


def part(function: Loop) -> Later:
    """Compile a function as a part of compiled loops, into which it is copied."""

    def make(function: Loop) -> Any:
        from numba import njit

        return njit(function, **PART)

    return Later(function, make)


def instruction(function: Loop, prefer_literal: bool = False) -> Later:
    """Let a function write LLVM's instructions into loops: what numba calls an intrinsic.

    prefer_literal: give the function numbers that are written out in a loop as such.
    """

    def make(function: Loop) -> Any:
        from numba.extending import intrinsic

        return intrinsic(prefer_literal=prefer_literal)(function)

    return Later(function, make)


def state_of(function: Loop) -> str:
    """Return a digest of what decides the machine code of a function, the processor included."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    where = binding.get_host_cpu_name(), features, sorted(OPTIONS.items()), sorted(PART.items())
    return sha256(repr((where, made_from(function))).encode()).hexdigest()[:12]


def made_from(function: Loop) -> dict[str, str]:
    """Return what a function compiles to, in words: code and constants, by the name of each.

    Its own, and those of the functions of this package that it calls, directly or not. They are
    those in memory: a file may have been edited since it was imported. Raises TypeError for a name
    of this package that is no function, part or plain constant: a change of it would go unnoticed.
    """
    found: dict[str, str] = {}
    left, seen = [function], {function}
    while left:
        one = left.pop()
        place = f"{one.__module__}.{one.__qualname__}"
        found[f"{place} {len(found)}"] = f"{_text(one.__code__)} {one.__defaults__}"
        closed = zip(one.__code__.co_freevars, one.__closure__ or (), strict=True)
        named = {name: one.__globals__.get(name) for name in _names(one.__code__)}
        named |= {name: cell.cell_contents for name, cell in closed}
        for name, value in sorted(named.items()):
            called = value.function if isinstance(value, Later) else value
            called = getattr(called, "__wrapped__", called)  # of a function whose results are kept
            if isinstance(called, FunctionType):
                if _is_ours(called.__module__) and called not in seen:
                    seen.add(called)
                    left.append(called)
            elif isinstance(value, bool | int | float | str | tuple | dict):
                found[f"{place}.{name} {len(found)}"] = repr(value)
            elif value is not None and _is_ours(_home(value)):
                raise TypeError(
                    f"{place} names {name}, {value!r}: compiled code cannot depend on it"
                )
    return found


def _text(code: CodeType) -> str:
    """Return what code does, without the place where it was written."""
    consts = [_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_freevars} {code.co_cellvars} {consts}"


def _names(code: CodeType) -> set[str]:
    """Return the names that code and the functions within it look up outside of themselves."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _home(value: object) -> str:
    """Return the module that a value is, or that it or its class comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def array(tensor: Tensor) -> Any:
    """Return a contiguous tensor's numbers as a numpy array, shared where they are contiguous."""
    return tensor.detach().contiguous().numpy()
