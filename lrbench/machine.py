"""Facts about this machine, where the system gives them: processor, cores, live processes.

Two processes are distinguished even when the system gives both the same id. Linux says when a
process started (proc(5): `stat` fields 3 and 22). Where that is not known, a process counts as
alive if its id can be signalled.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

PROC = Path("/proc")  # Linux's
CPUINFO = PROC / "cpuinfo"


def processor_says(field: str) -> str | None:
    """Return a field such as 'model name' or 'vendor_id'; None where nothing can be read."""
    try:
        text = CPUINFO.read_text(errors="replace")
    except OSError:
        return None
    match = re.search(rf"^{re.escape(field)}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else None


def available_cores() -> int:
    """Return how many cores this process may use; all of them where a system has no such limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def host() -> str:
    """Return this machine's name, for messages and as the first test of identity."""
    return socket.gethostname()


def identity() -> str:
    """Name the place where a process id means something: this boot and this pid namespace.

    Containers may share a host name; they do not share their process ids.
    """
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(PROC / 'self/ns/pid')}"
    except OSError:
        return host()


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks after boot; None if that is not known."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def start_seconds(pid: int) -> float | None:
    """Return when a process started, in seconds since the epoch; None if that is not known."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    for line in (PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return None


def alive(pid: int, started: int | None = None) -> bool:
    """Tell whether a process lives; one that started at another tick than `started` is another.

    A zombie, killed but not yet waited for, is dead.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's process, but a living one
    fields = _stat(pid)
    if fields is None:
        return True
    return fields[0] not in "ZX" and (started is None or int(fields[19]) == started)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command, which may itself hold blanks and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
