"""Files that plugins open beside them and that no fingerprint has: they are named, not passed over.

Python tells an audit hook of every file that it opens. A file counts that lies below the folder
that a plugin is imported from, if the innermost code on the stack that is the plugin's or ours is
the plugin's: our own checkpoints and data lie there as well. Not seen is what a C library opens by
itself, what another process opens, and what was opened before the plugin was imported by us.

A hook cannot be taken away again, so there is none in a process without plugins.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from lrbench.plugins.sources import INSTALLED, hashed_files, plugin_folder

MOST = 20  # that are named of one plugin

_OWN = str(Path(__file__).parents[1]) + os.sep
_ELSEWHERE = (_OWN, *(path + os.sep for path in {sys.prefix, sys.base_prefix}))
_folders: tuple[str, ...] = ()  # that plugins are imported from, the innermost first
_opened: set[tuple[str, str]] = set()  # (the source that opened, what it opened)
_hooked = False


def watch(name: str) -> None:
    """Take note from now on of what the plugin of this name opens; call it before its import."""
    global _folders, _hooked
    folders = {str(folder) + os.sep for folder in _folders_of(name.partition(".")[0])}
    _folders = tuple(sorted({*_folders, *folders}, key=len, reverse=True))
    if _folders and not _hooked:
        sys.addaudithook(_hook)
        _hooked = True


def unhashed(module: ModuleType) -> list[str]:
    """Return the files that a plugin opened and that are not in its hash, below its folder.

    They include what was opened by a source that was itself opened so, and are at most MOST.
    """
    hashed = {str(path) for path in hashed_files(module)}
    reached, found = set(hashed), set[str]()
    pairs = set(_opened)
    while new := {path for reader, path in pairs if reader in reached} - reached:
        reached |= new
        found |= new
    folder = plugin_folder(module)
    names = sorted(Path(path).relative_to(folder).as_posix() for path in found)
    more = len(names) - MOST
    return names if more <= 0 else [*names[:MOST], f"and {more:,} more"]


def _folders_of(top: str) -> list[Path]:
    """Return the folders in which a plugin's files lie; of an installed one, its package's."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):  # its import will say so
        return []
    if spec is None:
        return []
    packages = [Path(place) for place in spec.submodule_search_locations or ()]
    places = packages or [Path(os.path.abspath(str(spec.origin)))]
    return [
        place if INSTALLED & set(place.parts) else place.parent
        for place in places
        if place in packages or not INSTALLED & set(place.parts)
    ]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Take note of a file that is opened; raises nothing, for that would keep it from opening."""
    if event != "open":
        return
    path, mode, flags = arguments
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or _writes(mode, flags):
        return
    if not os.path.isabs(path) or ".." in path:
        try:
            path = os.path.abspath(path)
        except OSError:  # the current folder was removed
            return
    folder = next((one for one in _folders if path.startswith(one)), None)
    if folder is None or _is_elsewhere(path, folder):
        return
    source = _source(path)
    if source is None or not os.path.isfile(source):
        return
    reader = _reader(sys._getframe(1))
    if reader is not None and reader != source:
        _opened.add((reader, source))


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str) and "+" not in mode and set(mode) & set("wax"):
        return True
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _is_elsewhere(path: str, folder: str) -> bool:
    """Whether a path is ours, Python's or of an installed package, though below the folder."""
    if any(path.startswith(one) and one.startswith(folder) for one in _ELSEWHERE):
        return True
    return not INSTALLED.isdisjoint(path[len(folder) :].split(os.sep))


def _source(path: str) -> str | None:
    """Return the source of a compiled module, any other path as it is; None for what is cached."""
    if f"{os.sep}__pycache__{os.sep}" not in path:
        return path
    try:
        return source_from_cache(path)
    except (ValueError, NotImplementedError):  # of numba, or half written
        return None


def _reader(frame: FrameType | None) -> str | None:
    """Return the plugin's source that opens a file; None where it is ours that does."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OWN):
            return None
        folder = next((one for one in _folders if name.startswith(one)), None)
        if folder is not None and not _is_elsewhere(name, folder):
            return name
        frame = frame.f_back
    return None
