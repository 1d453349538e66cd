"""A sweep that a crash of its own process does not end: a small process starts it anew.

Code of a plug-in may end a process by a signal, such as a segmentation fault, or by os._exit, and
nothing in Python can catch that. So a sweep that trains in its own process runs in a child. Where
the child ends while it is at a run, the next one enters that run as failed, and goes on with the
others. The parent does nothing else: signals for it go to the child, its exit code is the child's,
and the child ends with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
OF_KERNEL = 0x80  # si_code of a terminal's signal, which all its processes get by themselves
PR_SET_PDEATHSIG = 1  # from linux/prctl.h
BY_SIGNAL = 128  # a shell's exit code of a process that died of a signal, less its number

_at: int | None = None  # descriptor of the file in which a child notes what it is at
_crashed: dict[str, str] = {}  # folders that earlier children were at: what they died of


def survive_crashes() -> None:
    """Go on in a child, and in another one after each crash; the parent never returns.

    Does nothing where threads run already, which a child would lack, where torch is there, which
    may have some, or on another system than Linux, which alone ends a child with its parent.
    """
    global _at
    if sys.platform != "linux" or threading.active_count() > 1 or "torch" in sys.modules:
        return
    with tempfile.TemporaryFile() as file:
        _at = os.dup(file.fileno())
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
    while child := _begun():
        status = _waited(child)
        folders = json.loads(os.pread(_at, os.fstat(_at).st_size, 0) or b"[]")
        if not folders or (status < 0 and -status not in CRASHES):
            _leave(status)
        how = f"os._exit({status})" if status >= 0 else signal.Signals(-status).name
        _crashed.update(dict.fromkeys(folders, how))


def died_at(folder: Path) -> str | None:
    """Return what an earlier process of this sweep died of, at the run in `folder`."""
    return _crashed.get(str(folder))


@contextmanager
def at(folders: Sequence[Path]) -> Iterator[None]:
    """Let it be known what the process is at, in case it crashes."""
    _note([str(folder) for folder in folders])
    try:
        yield
    finally:
        _note([])


def _note(folders: list[str]) -> None:
    if _at is not None:
        os.ftruncate(_at, 0)
        os.pwrite(_at, json.dumps(folders).encode(), 0)


def _begun() -> int:
    """Return the process id of a new child, 0 in the child itself."""
    assert _at is not None
    os.ftruncate(_at, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    if child := os.fork():
        return child
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl failed: the child would outlive this process")
    if os.getppid() != parent:  # it was gone before that
        os._exit(BY_SIGNAL + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED, signal.SIGCHLD})
    return 0


def _waited(child: int) -> int:
    """Return the exit code of a child, negative of a signal; pass on what it does not get."""
    while True:
        told = signal.sigwaitinfo({*FORWARDED, signal.SIGCHLD})
        if told.si_signo != signal.SIGCHLD:
            if told.si_code != OF_KERNEL:
                os.kill(child, told.si_signo)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)


def _leave(status: int) -> NoReturn:
    """End as the child did."""
    os._exit(status if status >= 0 else BY_SIGNAL - status)
