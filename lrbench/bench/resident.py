"""How much memory a process holds and has held, by the kernel's account of it (Linux)."""

from __future__ import annotations

from pathlib import Path

STATUS, CLEAR, RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5"


def forget_peak() -> int:
    """Let the peak begin anew; return the bytes that are resident now."""
    CLEAR.write_text(RESET_PEAK)
    return status("VmRSS")


def status(key: str) -> int:
    """Return a size such as VmHWM, the peak of what was resident, in bytes."""
    lines = STATUS.read_text().splitlines()
    found = next(line for line in lines if line.startswith(f"{key}:"))
    return int(found.split()[1]) * 1024
