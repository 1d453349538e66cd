"""Where the files that come with the program are: in the wheel, or in a checkout."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path


def conf_dir() -> Path:
    """Return the folder of configuration files: inside the installed package, or beside it."""
    package = Path(str(files("lrbench")))
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise FileNotFoundError("lrbench is installed without its conf/ folder; install it again")


def published_dir() -> Path:
    """Return the folder of published tables: inside the installed package, or beside it."""
    package = Path(str(files("lrbench")))
    inside = package / "results"
    return inside if inside.is_dir() else package.parent / "results"


def data_dir() -> Path:
    """Return the folder of downloaded data: LRBENCH_DATA, else data/ of the current folder."""
    return Path(os.environ.get("LRBENCH_DATA") or "data")
