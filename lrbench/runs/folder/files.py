"""Files written whole or not at all: atomic writes, strict JSON, logs with a torn last line.

A file appears under its name only when all of it is on disk, so a reader gets the old content
or the new, never a part. JSON has no NaN or infinity: both are written as null.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lrbench import machine
from lrbench.disk import sync_folder

TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.(?P<host>[0-9a-f]{6})[0-9a-f]{8}\.tmp")
FOREIGN_AGE = 3600.0  # seconds after which another machine's temporary file is left over
CLOCK_SLACK = 2.0  # seconds by which a boot time and a file time may disagree


class UnreadableFile(Exception):
    """A file that cannot be used: missing, forbidden, cut short, damaged or of another kind."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def write_bytes(path: Path, data: bytes, durable: bool = True) -> None:
    """Replace `path` by `data` at once; on any failure the old file stays as it was.

    `durable` waits until the disk has it; without, a power cut may bring the old file back. What a
    killed process left of an earlier try is removed.
    """
    sweep_temporary(path.parent, path.name)
    name = f".{path.name}.{os.getpid()}.{_host_tag()}{secrets.token_hex(4)}.tmp"
    temporary = path.with_name(name)
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, obj: Mapping[str, Any], durable: bool = True) -> None:
    """Replace `path` by `obj` as JSON, keys in their order, NaN and infinities as null."""
    text = json.dumps(finite(obj), indent=2, allow_nan=False)
    write_bytes(path, text.encode() + b"\n", durable)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`; raise `UnreadableFile` if there is none, saying why."""
    data = read_bytes(path)
    try:
        obj = json.loads(data.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise UnreadableFile(path, "not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        reason = "empty" if not data.strip() else f"not JSON, or cut short ({error})"
        raise UnreadableFile(path, reason) from None
    if not isinstance(obj, dict):
        raise UnreadableFile(path, f"holds a JSON {type(obj).__name__}, not an object")
    return obj


def append_line(path: Path, obj: Mapping[str, Any]) -> None:
    """Add `obj` to a log as one line of JSON; a killed process loses no line appended before.

    What a kill left of a torn last line is cut off first. If the disk fills up, the file is
    cut back to whole lines and the OSError goes on. One process writes a log at a time.
    """
    line = json.dumps(finite(obj), allow_nan=False).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        end = _end_on_newline(descriptor)
        try:
            _write_all(descriptor, line)
        except BaseException:
            os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a log, without a torn last line; no file is an empty log.

    Raises `UnreadableFile` naming the first bad line before the last.
    """
    lines = _raw_lines(path)
    objects = [_parse_line(line) for line in lines]
    if objects and objects[-1] is None:
        objects.pop()
    if None in objects:
        raise UnreadableFile(path, f"line {objects.index(None) + 1} is not a JSON object")
    return [obj for obj in objects if obj is not None]


def newest_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log that have a whole number as `step`, from the newest to the oldest.

    Other lines are passed over. A line is read when it is asked for.
    """
    for line in reversed(_raw_lines(path)):
        obj = _parse_line(line)
        if obj is not None and type(obj.get("step")) is int:
            yield obj


def keep_lines_until(path: Path, step: int) -> int:
    """Cut a log back to the lines with `step` at most this; return how many could not be read.

    Resuming must not fail because of a damaged line, so such lines (no object, or one without
    a numeric `step`) are dropped and counted.
    """
    kept: list[bytes] = []
    unreadable = 0
    for line in _raw_lines(path):
        obj = _parse_line(line)
        at = obj.get("step") if obj else None
        if not isinstance(at, int | float):
            unreadable += 1
        elif at <= step:
            kept.append(line + b"\n")
    if path.exists():
        write_bytes(path, b"".join(kept))
    return unreadable


def sweep_temporary(folder: Path, name: str = "") -> list[Path]:
    """Remove the temporary files that dead processes left in `folder`, and return them.

    With `name` only those of the file of that name: a folder that is the user's has others' too.
    """
    removed = []
    for path in folder.glob(".*.tmp"):
        match = TEMPORARY.fullmatch(path.name)
        if match is None or name not in ("", match["name"]):
            continue
        if _left_over(path, int(match["pid"]), match["host"]):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def _left_over(path: Path, pid: int, host: str) -> bool:
    try:
        modified = path.stat().st_mtime
    except FileNotFoundError:
        return False  # its writer has just renamed it
    if host != _host_tag():
        return time.time() - modified > FOREIGN_AGE
    started = machine.start_seconds(pid)
    recycled = started is not None and modified < started - CLOCK_SLACK
    return recycled or not machine.alive(pid)


def _host_tag() -> str:
    return hashlib.sha256(machine.identity().encode()).hexdigest()[:6]


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; raise `UnreadableFile`, also of a pipe, which would wait."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would wait, a device never end
            raise UnreadableFile(path, "not a plain file")
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from error


def finite(obj: Any) -> Any:
    """Return lists and dictionaries with None for NaN and infinities, which JSON does not have."""
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    if isinstance(obj, dict):
        return {key: finite(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [finite(value) for value in obj]
    return obj


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


LINE = json.JSONDecoder(parse_constant=_refuse_constant)  # one for all lines: making one takes long


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        obj = LINE.decode(line.decode(errors="surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return obj if isinstance(obj, dict) else None


def _raw_lines(path: Path) -> list[bytes]:
    try:
        return [line for line in read_bytes(path).split(b"\n") if line.strip()]
    except UnreadableFile as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    while data:  # a nearly full disk takes a part and refuses the rest
        data = data[os.write(descriptor, data) :]


def _end_on_newline(descriptor: int) -> int:
    """Complete or cut off an unfinished last line; return the length of the file."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    data = os.pread(descriptor, size, 0)
    start = data.rfind(b"\n") + 1
    if _parse_line(data[start:]) is None:
        os.ftruncate(descriptor, start)
        return start
    _write_all(descriptor, b"\n")
    return size + 1
