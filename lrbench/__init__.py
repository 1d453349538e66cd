"""lrbench: length-extrapolation benchmarks for sequence models.

From Python: `config`, `train`, `load` and `results` do what the commands do (lrbench/api.py). They
are imported when they are first used: importing lrbench loads neither torch nor pandas.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lrbench.registry import (
    register_backbone,
    register_encoder,
    register_mixer,
    register_protocol,
    register_task,
)
from lrbench.version import __version__

if TYPE_CHECKING:
    from lrbench.api import TrainedRun, config, load, results, train

__all__ = [
    "TrainedRun",
    "__version__",
    "config",
    "load",
    "register_backbone",
    "register_encoder",
    "register_mixer",
    "register_protocol",
    "register_task",
    "results",
    "train",
]

_LAZY = ("TrainedRun", "config", "load", "results", "train")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'lrbench' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("lrbench.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package, whose `config` is the function also after lrbench/config.py was imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "config" and isinstance(value, ModuleType)):  # as an import would set it
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
