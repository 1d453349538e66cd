"""Memory that is used again in every update should not go back to the system in between."""

from __future__ import annotations

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc refuses more
NEVER = 2**31 - 1  # bytes, the largest int


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
