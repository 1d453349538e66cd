"""The source of the user's own models and tasks that runs were made with."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from lrbench.errors import UserError
from lrbench.plugins import VARIABLE, load_plugins
from lrbench.runs.folder.fingerprint import source_hash


def plugin_sources(used: dict[str, set[str]]) -> dict[str, bytes]:
    """Return the files of the plugins in `used`, {module: hashes that runs recorded}.

    Raises UserError for one that is not loaded, or whose source is no longer what runs recorded.
    """
    loaded = {module.__name__: module for module in load_plugins().values()} if used else {}
    files: dict[str, bytes] = {}
    for name, hashes in sorted(used.items()):
        if name not in loaded:
            raise UserError(
                f"runs were made with the plugin '{name}', which is not there\n"
                f"fix: {VARIABLE}={name} lrbench bundle ..., from the folder that holds it"
            )
        if hashes != {source_hash(loaded[name])}:
            raise UserError(
                f"the source of plugin '{name}' was changed after runs were made with it\n"
                "a bundle holds the source its numbers come from: restore it,"
                " or choose the runs of the present one with --fingerprint"
            )
        files |= _files(name, loaded[name])
    return files


def _files(name: str, module: ModuleType) -> dict[str, bytes]:
    source = Path(str(module.__file__))
    inside = "/".join(name.split("."))
    if not hasattr(module, "__path__"):
        return {f"{inside}.py": source.read_bytes()}
    root = source.parent
    return {
        f"{inside}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*.py"))
    }
