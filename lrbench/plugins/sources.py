"""The source of a plugin: its file or package, and what it imports from beside it.

Numbers depend on all of it, so all of it is hashed into fingerprints and packed into bundles.
Beside a plugin means: in the folder that holds its file, or its outermost package. What it imports
is read off the source (imports.py), so that the hash depends on files alone: not on what the
process imported before, nor on files that are there one day and not the next. What a plugin opens
beside that is found while it runs (reads.py).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

from lrbench.errors import UserError
from lrbench.plugins.imports import declared_by, named_by

INSTALLED = {"site-packages", "dist-packages"}  # folders full of what no plugin brought along

_hashed: dict[str, tuple[Path, ...]] = {}  # {plugin: what its last hash was of}


def source_hash(module: ModuleType) -> str:
    """Return the sha256 of a plugin's source.

    Of a single file it is that file's own. Raises UserError for a module without a file.
    """
    own, beside = _files(module)
    _hashed[module.__name__] = (*own, *beside)
    package = hasattr(module, "__path__")
    digest = hashlib.sha256()
    root = Path(str(module.__file__)).parent if package else plugin_folder(module)
    for path in own:
        _add(digest, path, root if package else None)
    for path in beside:
        _add(digest, path, plugin_folder(module))
    return digest.hexdigest()


def source_files(module: ModuleType) -> dict[str, bytes]:
    """Return {path below the plugin's folder: content}; UserError as `source_hash`."""
    root = plugin_folder(module)
    own, beside = _files(module)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in (*own, *beside)}


def hashed_files(module: ModuleType) -> list[Path]:
    """Return the files that the last `source_hash` of a plugin was of.

    Files may have been changed or removed since, as by who writes the next version while a run of
    this one is trained.
    """
    return list(_hashed[module.__name__])


def _add(digest: hashlib._Hash, path: Path, below: Path | None) -> None:
    data = path.read_bytes()
    if below is not None:
        digest.update(f"{path.relative_to(below).as_posix()}\0{len(data)}\0".encode())
    digest.update(data)


def plugin_folder(module: ModuleType) -> Path:
    """Return the folder that the plugin is imported from."""
    source = Path(str(module.__file__))
    depth = module.__name__.count(".") + hasattr(module, "__path__")
    return source.parents[depth]


def _files(module: ModuleType) -> tuple[list[Path], list[Path]]:
    """Return the plugin's own sources, and what they import or name beside them, each sorted."""
    if not getattr(module, "__file__", None):
        raise UserError(
            f"plugin '{module.__name__}' has no source file, so its results could not be told"
            " from those of another version\nfix: put it into a .py file and name that"
            " in LRBENCH_PLUGINS"
        )
    source = Path(str(module.__file__))
    own = sorted(source.parent.rglob("*.py")) if hasattr(module, "__path__") else [source]
    root = plugin_folder(module)
    installed = bool(INSTALLED & set(root.parts))
    found, left = set(own), list(own)
    while left:
        path = left.pop()
        named = declared_by(path, root)
        if not installed:
            named |= named_by(path, root)
        new = named - found
        found |= new
        left += [one for one in new if one.suffix == ".py"]
    return own, sorted(found - set(own))
