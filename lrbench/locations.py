"""The folders that the program reads and keeps: shipped in the wheel or a checkout, data, cache."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

ELSEWHERE = "name another folder with LRBENCH_DATA"  # where data cannot be written
GIVEN = ("lra_text", "lra_retrieval")  # corpora of whose files a user has to have a copy


def conf_dir() -> Path:
    """Return the folder of configuration files: inside the installed package, or beside it."""
    found = _shipped("conf")
    if (found / "config.yaml").is_file():
        return found
    raise FileNotFoundError("lrbench is installed without its conf/ folder; install it again")


def published_dir() -> Path:
    """Return the folder of published tables: inside the installed package, or beside it."""
    return _shipped("results")


def data_dir() -> Path:
    """Return the folder of downloaded data: LRBENCH_DATA, else data/ of the current folder."""
    return Path(os.environ.get("LRBENCH_DATA") or "data")


def not_at_hand(task: str) -> bool:
    """Tell whether a task has no data here, and is one of those that only the user can get."""
    return task in GIVEN and not (data_dir() / task / "train").is_dir()


def cache_dir() -> Path:
    """Return the folder of what was found out about this machine; it may be deleted."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "lrbench"


def _shipped(name: str) -> Path:
    package = Path(str(files("lrbench")))
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
