"""Files from the net that are what they should be, or are not there at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lrbench.errors import UserError

CHUNK = 1 << 16  # bytes read at a time
PATIENCE = 30.0  # seconds without a byte
SCHEMES = ("http://", "https://", "file://")


@dataclass(frozen=True)
class Download:
    """A file by name, with its size in bytes and its sha256."""

    name: str
    size: int
    sha256: str


def fetch(
    wanted: Download, folder: Path, mirrors: Sequence[str], tell: Callable[[str], None]
) -> bool:
    """Get a file from the first mirror that has it right; False where it was there already.

    `tell` is told what is going on. The file appears whole or not at all. Raises UserError if no
    mirror gives it, with what each of them did, and if it cannot be written.
    """
    target = folder / wanted.name
    try:
        if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == wanted.sha256:
            return False
        folder.mkdir(parents=True, exist_ok=True)
        failures = []
        for mirror in mirrors:
            url = f"{mirror.rstrip('/')}/{wanted.name}"
            tell(f"{url} ({wanted.size:,} bytes)")
            if why := _fetch_one(url, wanted, target):
                failures.append(f"{mirror}: {why}"[:200])
            else:
                return True
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    raise UserError(
        "\n".join(
            [
                f"{wanted.name} could not be downloaded",
                *failures[:3],
                f"put it into {folder} yourself, or name a mirror with --mirror URL",
            ]
        )
    )


def _fetch_one(url: str, wanted: Download, target: Path) -> str:
    """Download beside `target`, check, rename; return what went wrong, or nothing."""
    if not url.startswith(SCHEMES):
        return f"not an address; it should begin with {', '.join(SCHEMES)}"
    try:
        answer = urllib.request.urlopen(url, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code} {error.reason}"
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
    handle, temporary = tempfile.mkstemp(
        prefix=f".{wanted.name}.", suffix=".tmp", dir=target.parent
    )
    try:
        with answer, open(handle, "wb") as file:
            why = _copy(answer, file, wanted)
            file.flush()
            os.fsync(file.fileno())
        if not why:
            os.replace(temporary, target)
            target.chmod(0o644)
        return why
    finally:
        Path(temporary).unlink(missing_ok=True)


def _copy(answer: IO[bytes], file: IO[bytes], wanted: Download) -> str:
    """Copy what the server sends; return what is wrong with it, or nothing."""
    digest, size = hashlib.sha256(), 0
    try:
        while chunk := answer.read(CHUNK):
            size += len(chunk)
            if size > wanted.size:
                return f"sends more than {wanted.size:,} bytes"
            digest.update(chunk)
            file.write(chunk)
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        return f"broke off after {size:,} bytes: {str(error) or type(error).__name__}"
    if size < wanted.size:
        return f"ends after {size:,} of {wanted.size:,} bytes"
    if digest.hexdigest() != wanted.sha256:
        return f"sends another file: its sha256 begins with {digest.hexdigest()[:12]}"
    return ""
