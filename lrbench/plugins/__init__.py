"""A user's own tasks and models: modules named in LRBENCH_PLUGINS, and installed entry points.

A plugin is a Python module that calls `register_mixer` and the like when it is imported. Naming
one runs its code: LRBENCH_PLUGINS is trusted exactly as `python -m` is.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from lrbench.errors import UserError, where_written

VARIABLE = "LRBENCH_PLUGINS"
GROUP = "lrbench.plugins"
PATIENCE = 2.0  # seconds of an import, before it is said what takes so long

_loaded: dict[str, ModuleType] = {}
_left_out = False


class PluginsLeftOut(Exception):
    """Something needs plug-ins, in a process that does without."""


def named_before(command: str, otherwise: str | None = None) -> str:
    """Return a command as one types it, behind the plug-ins that LRBENCH_PLUGINS names now.

    otherwise: those to name where it names none.
    """
    named = os.environ.get(VARIABLE, "") or otherwise
    return f"{VARIABLE}={shlex.quote(named)} {command}" if named else command


def leave_out_plugins() -> None:
    """Import no plug-in in this process: from here on `load_plugins` raises PluginsLeftOut."""
    global _left_out
    _left_out = True


def load_plugins() -> dict[str, ModuleType]:
    """Import every plugin once; return {name: module}. The current folder is searched first.

    Raises UserError for a module that does not exist or does not import.
    """
    if _left_out:
        raise PluginsLeftOut
    for name in os.environ.get(VARIABLE, "").replace(",", " ").split():
        if name not in _loaded:
            _loaded[name] = _import_from_here(name)
    for point in _installed(tuple(sys.path)):
        if point.value not in _loaded:
            _loaded[point.value] = _import(point.module, f"entry point {point.name}")
    return dict(_loaded)


@cache
def _installed(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points on a search path, whose packages are read once a process."""
    return tuple(entry_points(group=GROUP))


def search_here() -> None:
    """Let the current folder be searched for modules, first."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def name_plugin(name: str, origin: str) -> None:
    """Make a module that the user named elsewhere a plugin, here and in processes started later.

    Raises UserError as `load_plugins` does, of a module named by `origin`; then it is none.
    """
    trust_plugin(_import_from_here(name, origin))
    named = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if name not in named:
        os.environ[VARIABLE] = ",".join([*named, name])


def trust_plugin(module: ModuleType) -> None:
    """Count a module that was imported as a plugin of this process."""
    _loaded[module.__name__] = module


def _import_from_here(name: str, origin: str = VARIABLE) -> ModuleType:
    search_here()
    return _import(name, origin)


def _import(name: str, origin: str) -> ModuleType:
    from lrbench.plugins.reads import watch  # of which a process without plugins has no need

    notice = threading.Timer(PATIENCE, _say_slow, (name, origin))
    notice.daemon = True
    notice.start()
    try:
        watch(name)
        module = import_module(name)
        _check_is_here(module, name, origin)
        return module
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise UserError(
                f"plugin '{name}' ({origin}) needs a module that is missing: {error}"
            ) from error
        raise UserError(
            f"plugin '{name}' ({origin}) not found\n"
            f"looked in {os.getcwd()} and the installed packages;"
            " name a module, without .py, from the folder that holds it"
        ) from error
    except (Exception, SystemExit) as error:
        raise UserError(
            f"plugin '{name}' ({origin}) failed to import: {type(error).__name__}: {error}"
            f"{where_written(error)}"
        ) from error
    finally:
        notice.cancel()


def _check_is_here(module: ModuleType, name: str, origin: str) -> None:
    """Refuse another module of the name of one in the current folder: that one would do nothing."""
    own, _, rest = name.partition(".")
    file = getattr(module, "__file__", None)
    places = Path(f"{own}.py"), Path(own, "__init__.py")
    if rest or file is None or not any(place.is_file() for place in places):
        return
    if not any(place.is_file() and place.resolve() == Path(file).resolve() for place in places):
        raise UserError(
            f"plugin '{name}' ({origin}) is not the one in {os.getcwd()}: python has a module of"
            f" that name already, {file}\nfix: rename yours"
        )


def _say_slow(name: str, origin: str) -> None:
    from lrbench.console import messages  # of a package that a quick start does without

    messages().print(f"importing plugin '{name}' ({origin})", markup=False)
