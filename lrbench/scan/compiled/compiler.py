"""The interface to numba: whether it is used, and the compilation of functions.

Compiled code is kept on disk, in `__pycache__` beside the source or, where that cannot be written,
in the user's cache. numba notices when the file of a function changes, but neither when a file that
it takes functions from does, nor that two processes are adding to one cache file at a time. So each
function gets a cache file of its own for each set of constants and number type and each state of
the files it is made from: processes can then only ever write the same thing over each other.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrbench.trust import trusted

SWITCH = "LRBENCH_COMPILED"
PACKAGE = Path(__file__).parents[2]  # the folder of lrbench
DTYPES = {torch.float32: "float32", torch.float64: "float64"}

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}  # others of a group may go on

Loop = Callable[..., Any]


def usable(tensor: Tensor, name: str, *layout: int | str) -> bool:
    """Tell whether the compiled loops `name` are to be used for numbers such as `tensor`'s.

    layout: the constants they are compiled with, as their self-check takes them
    (`lrbench/trust/cases.py`).
    """
    here = tensor.device.type == "cpu" and tensor.dtype in DTYPES and wanted() and installed()
    return here and trusted(name, tensor.dtype, tensor.device, layout)


def wanted() -> bool:
    """Tell whether the environment leaves compiled loops on: LRBENCH_COMPILED is not 0."""
    return os.environ.get(SWITCH, "1") != "0"


@cache
def installed() -> bool:
    """Tell whether there is a numba to import."""
    return find_spec("numba") is not None


def compiled(*constants: int | str) -> Callable[[Loop], Loop]:
    """Return a decorator that compiles a function at its first call, or finds it on disk.

    constants: whatever tells this function from others made by the same lines, such as a block
        size and the name of the number type. A function must be called with one set of types.
    """
    from numba import njit

    def decorate(function: Loop) -> Loop:
        parts = [function.__name__, *map(str, constants), state_of(function.__module__)]
        function.__qualname__ = "-".join(parts)  # names the cache file
        try:
            return njit(function, cache=True, **OPTIONS)  # type: ignore[no-any-return]
        except RuntimeError:  # nowhere to keep a cache: compile in each process
            return njit(function, **OPTIONS)  # type: ignore[no-any-return]

    return decorate


def part(function: Loop) -> Loop:
    """Compile a function as a part of compiled loops, into which it is copied."""
    from numba import njit

    return njit(function, error_model="numpy", forceinline=True)  # type: ignore[no-any-return]


@cache
def state_of(module: str) -> str:
    """Return a digest of a module, of what it takes from this package, and of the processor."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    digest = sha256(f"{binding.get_host_cpu_name()} {features}".encode())
    for path in sources(Path(str(import_module(module).__file__))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def sources(path: Path) -> list[Path]:
    """Return a file and those of this package that it imports, and that those import."""
    found, left = {path}, [path]
    while left:
        for other in _imported(left.pop()) - found:
            found.add(other)
            left.append(other)
    return sorted(found)


def _imported(path: Path) -> set[Path]:
    """Return the files of this package that a file imports, wherever in it and in whatever form."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # relative: found from where the file lies
                try:
                    inside = path.parents[node.level - 1].relative_to(PACKAGE)
                except ValueError:  # no file of this package
                    continue
                module = ".".join(part for part in (PACKAGE.name, *inside.parts, module) if part)
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    inner = [name.split(".")[1:] for name in names if name.split(".")[0] == PACKAGE.name]
    files = (PACKAGE.joinpath(*parts).with_suffix(".py") for parts in inner if parts)
    return {file for file in files if file.is_file()}


def array(tensor: Tensor) -> Any:
    """Return a contiguous tensor's numbers as a numpy array, shared where they are contiguous."""
    return tensor.detach().contiguous().numpy()
