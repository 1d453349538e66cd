"""Other people's code to compare with, of the version and with the bytes that were read.

`make oracles-test` installs it and runs these tests, none of which may then be skipped; elsewhere
they are skipped where it is absent.
"""

from __future__ import annotations

import os
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

REQUIRED = "LRBENCH_ORACLES_REQUIRED"


def pinned(package: str, wanted: str, files: dict[str, str], module: str = "") -> Path:
    """Return the folder of `package` if it is version `wanted` and its `files` are those known.

    files: {path in the package: the first digits of its SHA-256}. module: what it is imported by,
    if that is not its name. Skips the test, saying why, where it is not installed or is another.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        _missing(f"no {package} {wanted}: the extra `oracles` installs it")
    if found != wanted:
        _missing(f"{package} {found}; this compares with {wanted}")
    spec = find_spec(module or package)
    assert spec is not None and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    for name, digits in files.items():
        path = folder / name
        digest = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        if not digest.startswith(digits):
            _missing(f"{package} {found}: {name} is not the file that was read")
    return folder


def _missing(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)
