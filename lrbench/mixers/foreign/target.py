"""The class named by `model.mixer.target`: permission to import it, and its code's identity.

Importing a module runs it, so a module is imported only if the user named it: on the command line,
which makes it a plug-in of this process and of those it starts, or in LRBENCH_PLUGINS. A
configuration from disk, such as one in a stranger's bundle, names nothing.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from lrbench.checks import shown
from lrbench.errors import UserError
from lrbench.mixers.foreign.libraries import LAYERS, LibraryLayer, layer_of, library_of
from lrbench.mixers.foreign.settings import EXAMPLE, ForeignConfig, completed
from lrbench.plugins import VARIABLE, load_plugins, name_plugin, search_here
from lrbench.plugins.sources import INSTALLED, source_hash


def named_by_user(config: ForeignConfig) -> ForeignConfig:
    """Import what a user typed as the target; return the settings with all defaults written out.

    Raises UserError where it cannot be imported, is no nn.Module, or cannot take the arguments.
    """
    layer = _layer(config.target)
    _check_device(layer, config.target)
    _check_installed(layer.target)
    search_here()
    name_plugin(_outermost(layer.target.rpartition(".")[0]), "model.mixer.target")
    made_by = settings_class(config) or target_class(config)
    return completed(config, made_by, layer.fixed, layer.width)


def target_class(config: ForeignConfig) -> type[nn.Module]:
    """Return the class of a target; UserError for one that nobody here named, or no nn.Module."""
    layer = _layer(config.target)
    _check_device(layer, config.target)
    found = _attribute(layer.target)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise UserError(
            f"model.mixer.target={shown(config.target)} is {_described(found)}, not a class of"
            f" torch.nn.Module\nfix: name the class of one layer, as in {EXAMPLE}"
        )
    return found


def settings_class(config: ForeignConfig) -> type | None:
    """Return the class of the one object that a library's layer is made from, if there is one."""
    path = _layer(config.target).settings
    return _attribute(path) if path else None


def code_of(config: ForeignConfig) -> dict[str, Any]:
    """Return which code a target is, for the versions of a run.

    {"plugins": {module: sha256}} of source that a bundle has to hold; {"libraries": {name: version
    and the sha256 of the class's file}} of an installed package.
    """
    path = Path(str(sys.modules[target_class(config).__module__].__file__))
    name = _layer(config.target).target.rpartition(".")[0]
    package = name.partition(".")[0]
    if not INSTALLED & set(path.parts):
        module = _outermost(name)
        return {"plugins": {module: source_hash(sys.modules[module])}}
    owner = next(iter(_distributions().get(package, [])), package)
    digest = sha256(path.read_bytes()).hexdigest()
    return {"libraries": {owner: f"{version(owner)} {digest}"}}


def _layer(target: str) -> LibraryLayer:
    """Return the layer of a target; UserError for none, or one that cannot be a dotted path."""
    layer = layer_of(target)
    parts = layer.target.split(".")
    if len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[0] != "lrbench":
        return layer
    given = f"'{shown(target)}' is not MODULE.CLASS" if target else "names no class yet"
    raise UserError(
        f"model=foreign: model.mixer.target {given}\n"
        f"fix: name a torch.nn.Module, as in {EXAMPLE}\n"
        f"short names: {', '.join(LAYERS)}"
    )


def _check_device(layer: LibraryLayer, target: str) -> None:
    library = library_of(layer.target)
    if library is not None and library.cuda and not torch.cuda.is_available():
        twin = f"; the same function on a CPU: model={layer.twin}" if layer.twin else ""
        raise UserError(f"{target} needs a CUDA device and triton{twin}")


def _check_installed(path: str) -> None:
    library, package = library_of(path), path.partition(".")[0]
    if library is not None and find_spec(package) is None:
        raise UserError(
            f"{path} is of the package {package}, which is not installed\n"
            f"fix: pip install {library.install}"
        )


def _outermost(name: str) -> str:
    """Return the outermost package or module of a dotted name that is a file.

    Packages around it without an `__init__.py` are none.
    """
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        outer = ".".join(parts[:end])
        try:
            spec = find_spec(outer)
        except (ImportError, ValueError):
            break
        if spec is None:
            break
        if spec.origin is not None:
            return outer
    return parts[0]


def _attribute(path: str) -> Any:
    """Return what a dotted path names in a module that is a plug-in of this process."""
    name, _, wanted = path.rpartition(".")
    module = _imported(name)
    if not hasattr(module, wanted):
        there = sorted(
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, nn.Module)
        )
        raise UserError(
            f"module '{name}' has no '{shown(wanted)}'\n"
            f"its torch modules: {', '.join(there) or 'none'}"
        )
    return getattr(module, wanted)


def _imported(name: str) -> ModuleType:
    """Import a module of a plug-in; UserError, before anything is run, if it is of none."""
    parts = name.split(".")
    outer = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    if not outer & set(load_plugins()):
        raise UserError(
            f"this run needs your module '{name}', and LRBENCH_PLUGINS does not name it\n"
            f"fix, if you trust it: {VARIABLE}={parts[0]} lrbench ...,"
            " from the folder that holds it"
        )
    try:
        return import_module(name)
    except Exception as error:
        raise UserError(
            f"module '{name}' (model.mixer.target) failed to import:"
            f" {type(error).__name__}: {shown(error, 200)}"
        ) from error


@cache
def _distributions() -> dict[str, list[str]]:
    return {name: list(found) for name, found in packages_distributions().items()}


def _described(found: Any) -> str:
    if isinstance(found, nn.Module):
        return f"an object of {type(found).__name__}"
    return f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"


def with_named_target(model: Any) -> Any:
    """Return a `model` node as a user typed it, with a foreign target imported and completed."""
    mixer = getattr(model, "mixer", None)
    if not isinstance(mixer, ForeignConfig):
        return model
    return replace(model, mixer=named_by_user(mixer))
