"""Memory of a process: freed memory kept between updates, and the peak of a piece of work."""

from __future__ import annotations

import ctypes
import platform
import resource
from pathlib import Path
from types import TracebackType

import torch

NUMBER = 4  # bytes of a float32

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc refuses more
NEVER = 2**31 - 1  # bytes, the largest int

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep what is freed; False where there is no glibc to tell.

    By default it returns tensors of some megabytes to the kernel when they are freed, which then
    hands out zeroed pages again in the next update: thousands of page faults, 3 to 6 % of the time
    of a small model. The process keeps its largest size instead.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    malloc = ctypes.CDLL(None)
    settings = (M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD), (M_TRIM_THRESHOLD, NEVER)
    return all(malloc.mallopt(name, value) == 1 for name, value in settings)


class PeakMemory:
    """Context whose `mib` is the peak within it: of the process, or of a CUDA device's tensors.

    Linux can reset the high-water mark; elsewhere the process's peak so far is given.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.mib = 0.0

    def __enter__(self) -> PeakMemory:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        elif CLEAR.exists():
            CLEAR.write_text("5")  # resets VmHWM
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.device.type == "cuda":
            self.mib = torch.cuda.max_memory_allocated(self.device) / 2**20
        else:
            self.mib = _process_peak()


def _process_peak() -> float:
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 2**20 if platform.system() == "Darwin" else 2**10  # getrusage(2): bytes there, KiB here
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
