"""The largest memory a piece of work needed."""

from __future__ import annotations

import resource
from pathlib import Path
from types import TracebackType

import torch

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


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
        kind: type[BaseException] | None,
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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
