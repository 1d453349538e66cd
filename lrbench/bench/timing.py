"""Times that can be compared on a machine that does other things as well.

The compared programs take turns: A, B, C, A, B, C, .. Each round gives one time for each. Other
work that slows the machine down for a while slows all of a round, so the ratios within a round
stay. The reported number is the median of rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lrbench.errors import UserError
from lrbench.runs.folder.environment import environment

Call = Callable[[], object]
LEAST_ROUNDS = 3
STATUS, CLEAR, RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5"


@dataclass
class Rounds:
    """Seconds of one call, by name: one number a round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def time(self, name: str) -> float:
        """Return the median seconds of a call."""
        return median(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        """Return how many times as long `name` takes as `to`: the median over rounds."""
        return median(self.ratios(name, to))

    def ratios(self, name: str, to: str) -> list[float]:
        """Return how many times as long `name` takes as `to`, in each round."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return [one / other for one, other in pairs]


def alternate(
    calls: Mapping[str, Call],
    rounds: int,
    seconds: float,
    tell: Callable[[str], None] = lambda line: None,
) -> Rounds:
    """Time each of `calls` for about `seconds` in each of `rounds`, in turn, after a call unheeded.

    A call that takes longer than that is made once a round. Raises UserError for fewer than three
    rounds: what one says nothing about is noise.
    """
    if rounds < LEAST_ROUNDS:
        raise UserError(
            f"--rounds must be at least {LEAST_ROUNDS}, not {rounds}: a median of fewer hides noise"
        )
    measured = Rounds({name: [] for name in calls})
    for call in calls.values():
        call()
    for number in range(rounds):
        for name, call in calls.items():
            measured.seconds[name].append(time_of(call, seconds))
        tell(f"round {number + 1} of {rounds}")
    return measured


def time_of(call: Call, seconds: float) -> float:
    """Return the mean seconds of a call, made again and again for about `seconds`.

    What a GPU has left to do before the first is waited for, and after the last it counts.
    """
    _settle()
    began, made, spent = time.perf_counter(), 0, 0.0
    while made == 0 or spent < seconds:
        call()
        made += 1
        spent = time.perf_counter() - began
    if _settle():
        spent = time.perf_counter() - began
    return spent / made


def _settle() -> bool:
    """Wait for a GPU, and tell whether this process uses one; torch is not imported for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    torch.cuda.synchronize()
    return True


def keep(path: Path, what: str, options: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Write raw numbers with what they were measured on. Raises UserError where that is refused."""
    record = {"what": what, "options": dict(options), "environment": environment(), **content}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"--output '{path}': {(error.strerror or str(error)).lower()}") from error


def forget_peak() -> int:
    """Let the peak begin anew; return the bytes that are resident now.

    Raises UserError on a system that cannot: only Linux can.
    """
    if not CLEAR.exists():
        raise UserError(
            f"the memory of a process is measured by {CLEAR}, which this system does not have\n"
            "fix: measure on Linux, or on a GPU"
        )
    CLEAR.write_text(RESET_PEAK)
    return status("VmRSS")


def status(key: str) -> int:
    """Return a size such as VmHWM, the peak of what was resident, in bytes."""
    lines = STATUS.read_text().splitlines()
    found = next(line for line in lines if line.startswith(f"{key}:"))
    return int(found.split()[1]) * 1024
