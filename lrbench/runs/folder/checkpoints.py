"""Checkpoints: dictionaries of tensors and plain values that torch reads without running code.

A file is what `torch.save` makes, written whole or not at all. Its zip entries carry checksums,
so a flipped bit is found before torch sees the file; plain
`torch.load(path, weights_only=True)` reads it too.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile

STEP_FILE = re.compile(r"step-(\d{8,})\.pt")
DOS_FOLDER = 0x10  # of an entry's external attributes
PLAIN = (bool, int, float, str, bytes, type(None))


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint at `path` by `state`; if the disk is full (OSError) the old stays."""
    buffer = io.BytesIO()
    torch.save(plain(state), buffer)
    files.write_bytes(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any]:
    """Return the state in `path`, on the CPU; raise `UnreadableFile` unless all of it is sound.

    Nothing in the file is executed.
    """
    data = files.read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            damaged, folder = archive.testzip(), _folder_in(archive)
        if damaged is None and folder is None:
            state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes can make a parser raise anything at all
        raise UnreadableFile(path, _reason(data, error)) from error
    if damaged is not None:
        raise UnreadableFile(path, f"damaged: wrong checksum of {damaged}")
    if folder is not None:
        raise UnreadableFile(path, f"damaged: {folder} is marked as a folder")
    if not isinstance(state, dict):
        raise UnreadableFile(path, f"holds a {type(state).__name__}, not a dictionary")
    for name, kind in (("step", int), ("seed", int), ("fingerprint", str), ("model", dict)):
        if name in state and not (isinstance(state[name], kind) and state[name] is not True):
            raise UnreadableFile(path, f"its {name} is a {type(state[name]).__name__}")
    for name, weight in state.get("model", {}).items():
        if isinstance(weight, Tensor) and not _is_whole(weight):
            raise UnreadableFile(path, f"its weight '{name!s:.40}' is not all there")
    return state


def _is_whole(weight: Tensor) -> bool:
    """Whether a file holds every number of a tensor; a view of one number can claim a terabyte."""
    if weight.layout != torch.strided:
        return False
    return weight.numel() * weight.element_size() <= weight.untyped_storage().nbytes()


def plain(obj: Any, where: str = "state") -> Any:
    """Return `obj` as nested dict, list, tuple, tensor and Python values; else raise TypeError.

    NumPy scalars become Python's (`weights_only` refuses them), tensors are detached, and a
    view is copied: torch would save the whole storage behind it.
    """
    if isinstance(obj, numpy.generic):
        obj = obj.item()
    if type(obj) in PLAIN:
        return obj
    if isinstance(obj, Tensor) and obj.layout == torch.strided:
        whole = obj.untyped_storage().nbytes() == obj.numel() * obj.element_size()
        return obj.detach() if whole else obj.detach().clone()
    if isinstance(obj, dict):
        return {_key(key, where): plain(value, f"{where}.{key}") for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        items = [plain(value, f"{where}[{index}]") for index, value in enumerate(obj)]
        return items if isinstance(obj, list) else tuple(items)
    type_name = type(obj).__name__
    raise TypeError(f"{where} is a {type_name}: a checkpoint holds tensors and plain values")


def step_name(step: int) -> str:
    """Return the file name of the checkpoint after `step` updates, such as step-00001000.pt."""
    if step < 0:
        raise ValueError(f"step must not be negative: {step}")
    return f"step-{step:08d}.pt"


def newest_valid(
    folder: Path,
    is_valid: Callable[[dict[str, Any]], bool] = lambda state: True,
    on_bad: Callable[[Path, str], None] = lambda path, reason: None,
) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest sound step checkpoint that `is_valid` accepts, or None.

    Every newer one that is passed over is told to `on_bad` with the reason.
    """
    for path in reversed(steps(folder)):
        try:
            state = load(path)
        except UnreadableFile as error:
            on_bad(path, error.reason)
            continue
        if is_valid(state):
            return path, state
        on_bad(path, "of another run, or weights that its rules kept are gone")
    return None


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all step checkpoints but the newest `keep`; best.pt and its like are not touched."""
    if keep < 1:
        raise ValueError(f"keep must be at least 1: {keep}")
    for path in steps(folder)[:-keep]:
        path.unlink(missing_ok=True)


def steps(folder: Path) -> list[Path]:
    """Return the step checkpoints in `folder`, oldest first; none if there is no folder."""
    if not folder.is_dir():
        return []
    matches = [(STEP_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return [path for _, path in sorted((int(match[1]), path) for match, path in matches if match)]


def _folder_in(archive: zipfile.ZipFile) -> str | None:
    """Return an entry that is marked as a folder, which no checksum covers and torch does not read.

    Torch writes none, and would leave the memory of such a tensor as it found it.
    """
    marked = (entry.filename for entry in archive.infolist() if entry.external_attr & DOS_FOLDER)
    return next(marked, None)


def _key(key: Any, where: str) -> str | int:
    if type(key) not in (str, int):
        raise TypeError(f"{where} has the key {key!r}: keys are strings or integers")
    return key  # type: ignore[no-any-return]


def _reason(data: bytes, error: Exception) -> str:
    if not data:
        return "empty"
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"cut short, damaged or not a checkpoint ({first_line[:120]})"
