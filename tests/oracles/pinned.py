"""Other people's code to compare with, of the version and with the bytes that were read."""

from __future__ import annotations

from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest


def pinned(package: str, wanted: str, files: dict[str, str]) -> Path:
    """Return the folder of `package` if it is version `wanted` and its `files` are those known.

    files: {path in the package: first 16 digits of its SHA-256}. Skips the test, saying why,
    where it is not installed or is another. The extra `oracles` installs all of them.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        pytest.skip(f"no {package} {wanted}: the extra `oracles` installs it")
    if found != wanted:
        pytest.skip(f"{package} {found}; this compares with {wanted}")
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    for name, digest in files.items():
        if sha256((folder / name).read_bytes()).hexdigest()[:16] != digest:
            pytest.skip(f"{package} {found}: {name} is not the file that was read")
    return folder
