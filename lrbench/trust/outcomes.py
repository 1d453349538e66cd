"""Outcomes of self-checks on disk: a file a kernel, in a folder for this machine and version.

The folder is named after everything that decides what a kernel computes, so that a new driver or an
edited file means new checks. Files are moved into place whole; where nothing can be written, what
was found holds for the process.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from lrbench.locations import cache_dir
from lrbench.machine import processor_says
from lrbench.version import __version__

PACKAGE = Path(__file__).parents[1]
COMPUTES = ("encoders", "kernels", "mixers", "scan", "trust")  # folders with kernels
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Kernel:
    """A fast path: its name in the table of cases, and the numbers and layout it is wanted for.

    layout: whatever tells its programs apart, such as a block size, in the order of the case.
    """

    name: str
    dtype: str
    layout: tuple[int | str, ...] = ()
    device: str = "cpu"

    def __str__(self) -> str:
        shape = f"[{', '.join(map(str, self.layout))}]" if self.layout else ""
        return f"{self.name}{shape} in {self.dtype} on {self.device}"


@dataclass(frozen=True)
class TrustOutcome:
    """What a check found: no `reason` means that the kernel is trusted; `seconds` it took."""

    kernel: Kernel
    reason: str
    seconds: float

    @property
    def trusted(self) -> bool:
        return not self.reason


def machine(device: str = "cpu") -> dict[str, str]:
    """Return what kernels on a device depend on; an empty value where there is no such thing."""
    found = {"lrbench": __version__, "source": source(), "torch": _version("torch")}
    if device == "cpu":
        found |= {"device": processor_says("model name") or platform.machine()}
        found |= {"features": _digest(processor_says("flags") or ""), "numba": _version("numba")}
    else:
        import torch

        found |= {"device": torch.cuda.get_device_name(device), "cuda": torch.version.cuda or ""}
        found |= {"driver": _driver()}
    return found | {"triton": _version("triton")}


@cache
def source() -> str:
    """Return a digest of the files that kernels are made from."""
    digest = sha256()
    for folder in COMPUTES:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def find(kernel: Kernel) -> TrustOutcome | None:
    """Return what was found before; None where nothing was, or a file cannot be read."""
    try:
        return _read(folder(kernel.device) / _file(kernel))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(outcome: TrustOutcome) -> bool:
    """Write an outcome down; tell whether that was possible."""
    text = json.dumps({**asdict(outcome), "machine": machine(outcome.kernel.device)}, indent=1)
    try:
        place = folder(outcome.kernel.device)
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place, suffix=".part")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, place / _file(outcome.kernel))
    except OSError:  # a read-only home: checked again by each process
        return False
    return True


def all_found(device: str = "cpu") -> Iterator[TrustOutcome]:
    """Yield every outcome for a device of this machine, by file name."""
    for path in sorted(folder(device).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # half a file is no outcome
            yield _read(path)


def folder(device: str = "cpu") -> Path:
    """Return where outcomes for a device of this machine and these versions are."""
    return cache_dir() / "selfcheck" / _digest(json.dumps(machine(device)))


def _read(path: Path) -> TrustOutcome:
    content: dict[str, Any] = json.loads(path.read_text())
    kernel = content["kernel"]
    return TrustOutcome(
        Kernel(kernel["name"], kernel["dtype"], tuple(kernel["layout"]), kernel["device"]),
        str(content["reason"]),
        float(content["seconds"]),
    )


def _file(kernel: Kernel) -> str:
    parts = kernel.name, kernel.dtype, *map(str, kernel.layout), kernel.device
    return re.sub(r"[^\w.-]", "_", "-".join(parts)) + ".json"


def _driver() -> str:
    try:
        return DRIVER.read_text().splitlines()[0]
    except (OSError, IndexError):
        return ""


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
