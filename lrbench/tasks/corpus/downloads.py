"""Downloads of files, checked by sha256; a file that differs is not kept.

What comes is kept in a hidden file beside the wanted one, so that a transfer that broke off is
continued (HTTP range requests, RFC 9110 section 14) by the next attempt, mirror or command. The
sha256 of the whole decides in the end; where it is wrong nothing is kept.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lrbench.disk import lock
from lrbench.errors import UserError
from lrbench.locations import ELSEWHERE

CHUNK = 1 << 16  # bytes read at a time
PATIENCE = 30.0  # seconds without a byte
ATTEMPTS = 5  # requests to one mirror for one file, as long as each brings it on
SCHEMES = ("http://", "https://", "file://")
NO_NET = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
OFFLINE = "no connection"  # how a failure begins that says more of this machine than of a mirror

Tell = Callable[[str], None]
Moved = Callable[[int], None]


@dataclass(frozen=True)
class Download:
    """A file by name, with its size in bytes and its sha256."""

    name: str
    size: int
    sha256: str

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this one."""
        return path.is_file() and not self.difference(path)

    def difference(self, path: Path) -> str:
        """Return in what the file at `path` is another one than this, nothing if it is this one."""
        size = path.stat().st_size
        if size != self.size:
            return f"it has {size:,} bytes for {self.size:,}"
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest == self.sha256:
            return ""
        return f"its sha256 begins with {digest[:12]}, for {self.sha256[:12]}"


def fetch(
    wanted: Download,
    folder: Path,
    mirrors: Sequence[str],
    tell: Tell,
    moved: Moved = lambda left: None,
) -> bool:
    """Get a file from the first mirror that has it right; False where it was there already.

    `tell` is told what is going on, `moved` how many bytes are still to come. The file appears
    whole or not at all. Raises UserError if no mirror gives it, with what each of them did, and if
    it cannot be written.
    """
    target = folder / wanted.name
    try:
        if wanted.is_at(target):
            return False
        folder.mkdir(parents=True, exist_ok=True)
        with _partial(folder / f".{wanted.name}.{wanted.sha256[:12]}.part", tell) as part:
            if wanted.is_at(target):  # another process got it meanwhile
                return False
            failures = _from_mirrors(wanted, mirrors, part, tell, moved)
            if failures is None:
                os.fsync(part.fileno())
                os.replace(part.name, target)
                target.chmod(0o644)
                return True
            kept = _size(part)
    except OSError as error:
        raise UserError(
            f"{target} cannot be written: {error.strerror or error}\n{ELSEWHERE}"
        ) from error
    raise _failed(wanted, folder, failures, kept)


def _failed(wanted: Download, folder: Path, failures: list[str], kept: int) -> UserError:
    """Return the error that says what each mirror did, and what can be done."""
    offline = failures and all(OFFLINE in failure for failure in failures)
    lines = [
        f"{wanted.name} could not be downloaded"
        + (": this machine seems to be offline" if offline else ""),
        *failures[:3],
        *_present(wanted, folder / wanted.name),
        f"put it into {folder} yourself, or name a mirror with --mirror URL",
    ]
    if kept:
        lines.append(f"{kept:,} bytes of it are kept; the same command goes on from there")
    return UserError("\n".join(lines))


def _present(wanted: Download, target: Path) -> list[str]:
    """Return the line that says that a file is there, and that it is another one."""
    if not target.is_file():
        return []
    return [f"what is there is not the released file: {wanted.difference(target)}"]


@contextmanager
def _partial(path: Path, tell: Tell) -> Iterator[IO[bytes]]:
    """Open what there is of a file for going on with it, alone; an empty one is removed."""
    while True:
        file = open(path, "a+b")  # noqa: SIM115  # closed below, and where it is another's
        lock(file.fileno(), tell, f"{path}: another process is downloading it")
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            break
        file.close()  # who held it has removed or renamed it
    try:
        yield file
    finally:
        if not _size(file):
            path.unlink(missing_ok=True)
        file.close()


def _from_mirrors(
    wanted: Download, mirrors: Sequence[str], part: IO[bytes], tell: Tell, moved: Moved
) -> list[str] | None:
    """Complete `part` from the first mirror that can; return what went wrong, None if it did."""
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{wanted.name}"
        have = f", {_size(part):,} of them here" if _size(part) else ""
        tell(f"{url} ({wanted.size:,} bytes{have})")
        if not (why := _from_one(url, wanted, part, moved)):
            return None
        failures.append(f"{mirror}: {why}"[:200])
    return failures


def _from_one(url: str, wanted: Download, part: IO[bytes], moved: Moved) -> str:
    """Ask one mirror until it no longer brings us on; return what went wrong, or nothing."""
    if not url.startswith(SCHEMES):
        return f"not an address; it should begin with {', '.join(SCHEMES)}"
    why = ""
    for _ in range(ATTEMPTS):
        before = _size(part)
        if not (why := _attempt(url, wanted, part, moved)):
            return ""
        after = _size(part)
        started_again = before > 0 and after == 0  # what was kept, or continuing, was wrong
        if after <= before and not started_again:
            break
    return why


def _attempt(url: str, wanted: Download, part: IO[bytes], moved: Moved) -> str:
    """Continue `part` by one request and check it if it is whole; return what went wrong."""
    have = _size(part)
    if have >= wanted.size:
        return _checked(part, wanted)
    request = urllib.request.Request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.truncate(0)
        return f"HTTP {error.code} {error.reason}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _no_answer(error)
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            part.truncate(0)  # all of it comes, whatever was asked for
        elif not (answer.headers["Content-Range"] or "").startswith(f"bytes {have}-"):
            part.truncate(0)
            return "answers with other bytes than were asked for"
        return _copy(answer, part, wanted, moved) or _checked(part, wanted)


def _no_answer(error: Exception) -> str:
    """Return why there was no answer, beginning with OFFLINE where no mirror could have one."""
    reason: Any = getattr(error, "reason", error)
    text = str(reason) or type(error).__name__
    unreachable = getattr(reason, "errno", None) in NO_NET
    return f"{OFFLINE}: {text}" if isinstance(reason, socket.gaierror) or unreachable else text


def _copy(answer: Any, part: IO[bytes], wanted: Download, moved: Moved) -> str:
    """Append what the server sends; return why it is not all, or nothing."""
    size = _size(part)
    broke = ""
    while not broke:
        try:
            chunk = answer.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            chunk, broke = b"", str(error) or type(error).__name__
        if not chunk:
            break
        size += len(chunk)
        if size > wanted.size:
            part.truncate(0)
            return f"sends more than {wanted.size:,} bytes"
        part.write(chunk)
        moved(wanted.size - size)
    part.flush()
    if broke:
        return f"broke off after {size:,} bytes: {broke}"
    return f"ends after {size:,} of {wanted.size:,} bytes" if size < wanted.size else ""


def _checked(part: IO[bytes], wanted: Download) -> str:
    """Return what is wrong with a whole file, and empty it then."""
    part.seek(0)
    digest = hashlib.file_digest(part, "sha256").hexdigest()  # type: ignore[arg-type]
    if digest == wanted.sha256:
        return ""
    part.truncate(0)
    return f"sends another file: its sha256 begins with {digest[:12]}"


def _size(part: IO[bytes]) -> int:
    part.flush()
    return os.fstat(part.fileno()).st_size
