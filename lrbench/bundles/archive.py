"""Archives: written with the same bytes for the same files, read without trusting them.

What is read may come from anybody: names that lead elsewhere, links, devices, encrypted or
repeated entries and more than a sane amount of data are refused before anything is written.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from lrbench.bundles.layout import TOP
from lrbench.errors import UserError

ENDINGS = (".zip", ".tar.gz", ".tgz")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest that zip can say
MOST_FILES = 200_000
MOST_BYTES = 4 * 2**30  # unpacked, of all files together
LARGEST = 512 * 2**20  # of one file
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # encrypted
    NotImplementedError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
)


def packed(files: dict[str, bytes], name: str) -> bytes:
    """Return an archive of `files`, of the kind that the ending of `name` says."""
    if not name.endswith(ENDINGS):
        raise UserError(f"--output '{name}' must end with {', '.join(ENDINGS)}", exit_code=2)
    ordered = [(f"{TOP}/{path}", files[path]) for path in sorted(files)]
    return _zip(ordered) if name.endswith(".zip") else _tar(ordered)


def _zip(files: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, data in files:
            entry = zipfile.ZipInfo(path, LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # unix, wherever it is made
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, data, compresslevel=9)
    return out.getvalue()


def _tar(files: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=out, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, data in files:
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by their names below its folder. Raises UserError."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(4)
        if start[:2] == b"PK":
            return _gathered(path, _zip_entries(path))
        if start[:2] == b"\x1f\x8b":
            return _gathered(path, _tar_entries(path))
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UserError(
            f"bundle '{path}' cannot be read: missing, cut short or damaged ({reason[:200]})"
        ) from error
    raise UserError(f"'{path}' is no bundle: neither a zip nor a tar.gz file")


def sha256(data: bytes) -> str:
    """Return the hash that a manifest names."""
    return hashlib.sha256(data).hexdigest()


def _gathered(path: Path, entries: Iterator[tuple[str, bytes]]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name, data in entries:
        below = name.removeprefix(f"{TOP}/")
        if below == name:
            raise UserError(f"bundle '{path}': '{name[:80]}' is not below {TOP}/")
        if below in files:
            raise UserError(f"bundle '{path}': '{name[:80]}' is there twice")
        files[below] = data
    return files


def _zip_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_count(path, len(entries))
        left = MOST_BYTES
        for entry in entries:
            if entry.is_dir():
                continue
            file_type = stat.S_IFMT(entry.external_attr >> 16)
            _check_entry(
                path, entry.filename, file_type in (0, stat.S_IFREG), entry.file_size, left
            )
            with archive.open(entry) as stream:
                data = stream.read(min(LARGEST, left) + 1)
            _check_entry(path, entry.filename, True, len(data), left)
            left -= len(data)
            yield entry.filename, data


def _tar_entries(path: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    with gzip.open(path) as zipped, tarfile.open(fileobj=_limited(zipped), mode="r|") as archive:
        for count, entry in enumerate(archive):
            _check_count(path, count)
            if entry.isdir():
                continue
            plain = entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
            _check_entry(path, entry.name, plain, entry.size, left)
            stream = archive.extractfile(entry)
            data = stream.read() if stream else b""
            if len(data) != entry.size:
                raise EOFError(f"'{entry.name}' ends early")
            left -= len(data)
            yield entry.name, data
        while zipped.read(2**16):  # to the checksum at the end
            pass


def _limited(stream: gzip.GzipFile) -> Any:
    return _Limited(stream)


class _Limited:
    """A stream that refuses to unpack without end, be it headers that do so."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self.stream = stream
        self.left = MOST_BYTES + MOST_FILES * 1024

    def read(self, size: int) -> bytes:
        if size > LARGEST:
            raise ValueError(f"a block of {size} bytes")
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError("more data than a bundle has")
        return data


def _check_count(path: Path, count: int) -> None:
    if count > MOST_FILES:
        raise UserError(f"bundle '{path}' holds more than {MOST_FILES:,} files")


def _check_entry(path: Path, name: str, plain: bool, size: int, left: int) -> None:
    where = f"bundle '{path}': '{name[:80]}'"
    if not plain:
        raise UserError(f"{where} is a link or a device, not a plain file; nothing was unpacked")
    parts = PurePosixPath(name).parts
    bad = not parts or name.startswith("/") or ".." in parts or len(name) > 1000
    if bad or any(c in name for c in "\\:\0") or str(PurePosixPath(name)) != name:
        raise UserError(f"{where} would lie outside the bundle; nothing was unpacked")
    if size > LARGEST or size > left:
        raise UserError(f"{where} is too large: at most {LARGEST >> 20} MiB a file")
