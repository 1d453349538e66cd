"""The source of a plugin: its file or package, and what it imports from beside it.

Numbers depend on all of it, so all of it is hashed into fingerprints and packed into bundles.
Beside a plugin means: in the folder that holds its file, or its outermost package. Imports are read
off the source, wherever they stand in it; a name that is made at run time is not seen.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from types import ModuleType

from lrbench.errors import UserError

INSTALLED = {"site-packages", "dist-packages"}  # folders full of what no plugin brought along


def source_hash(module: ModuleType) -> str:
    """Return the sha256 of a plugin's source.

    Of a single file it is that file's own. Raises UserError for a module without a file.
    """
    own, beside = _files(module)
    package = hasattr(module, "__path__")
    digest = hashlib.sha256()
    root = Path(str(module.__file__)).parent if package else _root(module)
    for path in own:
        _add(digest, path, root if package else None)
    for path in beside:
        _add(digest, path, _root(module))
    return digest.hexdigest()


def source_files(module: ModuleType) -> dict[str, bytes]:
    """Return {path below the plugin's folder: content}; UserError as `source_hash`."""
    root = _root(module)
    own, beside = _files(module)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in (*own, *beside)}


def _add(digest: hashlib._Hash, path: Path, below: Path | None) -> None:
    data = path.read_bytes()
    if below is not None:
        digest.update(f"{path.relative_to(below).as_posix()}\0{len(data)}\0".encode())
    digest.update(data)


def _root(module: ModuleType) -> Path:
    """Return the folder that the plugin is imported from."""
    source = Path(str(module.__file__))
    depth = module.__name__.count(".") + hasattr(module, "__path__")
    return source.parents[depth]


def _files(module: ModuleType) -> tuple[list[Path], list[Path]]:
    """Return the plugin's own files, and those beside it that they import, each sorted."""
    if not getattr(module, "__file__", None):
        raise UserError(
            f"plugin '{module.__name__}' has no source file, so its results could not be told"
            " from those of another version\nfix: put it into a .py file and name that"
            " in LRBENCH_PLUGINS"
        )
    source = Path(str(module.__file__))
    own = sorted(source.parent.rglob("*.py")) if hasattr(module, "__path__") else [source]
    root = _root(module)
    if INSTALLED & set(root.parts):
        return own, []
    found, left = set(own), list(own)
    while left:
        for path in _imported(left.pop(), root) - found:
            found.add(path)
            left.append(path)
    return own, sorted(found - set(own))


def _imported(path: Path, root: Path) -> set[Path]:
    """Return the files below `root` that a file imports, packages' `__init__.py` included."""
    here = path.relative_to(root).parent.parts
    found: set[Path] = set()
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # nothing can import it, and it imports nothing
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found |= _resolved(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else ()
            base = [*above, *(node.module.split(".") if node.module else ())]
            for alias in node.names:
                found |= _resolved(root, [*base, alias.name])
    return found


def _resolved(root: Path, name: list[str]) -> set[Path]:
    """Return the files that importing a dotted name runs, as far as they lie below `root`.

    This package is none of them, where a plugin lies in a checkout of it: it has versions.
    """
    found: set[Path] = set()
    if name[0] == __package__:
        return found
    for end in range(1, len(name) + 1):
        whole = root.joinpath(*name[:end])
        for path in (whole / "__init__.py", whole.with_suffix(".py")):
            if path.is_file():
                found.add(path)
                break
    return found
