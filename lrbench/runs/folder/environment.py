"""The environment of a run: versions, commit, processor, devices, threads; no folder, no host."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lrbench.machine import processor_says
from lrbench.version import __version__

PACKAGES = {
    "numpy": "numpy",
    "hydra": "hydra-core",
    "omegaconf": "omegaconf",
    "pandas": "pandas",
    "numba": "numba",
    "triton": "triton",
}
ROOT = Path(__file__).resolve().parents[3]
FOLDERS = re.compile(r"(?<![\w.])~?(?:/[^/,\s\[\]{}'\"]*)*/")


def environment() -> dict[str, Any]:
    """Return what environment.json records: plain values that bit identity depends on."""
    import torch

    return {
        "lrbench": __version__,
        **commit(ROOT),
        "python": platform.python_version(),
        **{key: _version(name) for key, name in PACKAGES.items()},
        "torch": torch.__version__,  # with its build, which the name of an index's wheel leaves out
        "platform": platform.platform(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        **_devices(),
        "compiled": _compiled(),
        **_scans(),
        "selfcheck": selfcheck(),
        "command": command(sys.argv),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def selfcheck() -> dict[str, Any]:
    """Return which kernels proved themselves on this machine, and why others are not used."""
    import torch

    from lrbench.trust import SWITCH, told

    if os.environ.get(SWITCH, "1") == "0":
        return {"on": False, "trusted": [], "not used": {}}
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = told(["cpu", *(f"cuda:{index}" for index in range(count))])
    return {
        "on": True,
        "trusted": sorted(str(outcome.kernel) for outcome in found if outcome.trusted),
        "not used": {str(one.kernel): one.reason for one in found if not one.trusted},
    }


def commit(root: Path) -> dict[str, Any]:
    """Return the commit of the checkout at `root`, and whether anything in it differs from that.

    Both are None when lrbench is installed, not checked out: the repository around the
    user's own virtual environment is not ours.
    """
    unknown = {"commit": None, "dirty": None}
    if not (root / ".git").exists():
        return unknown
    head = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain")
    if head is None or changes is None:
        return unknown
    return {"commit": head, "dirty": bool(changes)}


def command(argv: list[str]) -> list[str]:
    """Return the command line with every absolute path cut to its last name."""
    program, *arguments = argv or [""]
    return [Path(program).name, *(FOLDERS.sub("", argument) for argument in arguments)]


def _git(root: Path, *arguments: str) -> str | None:
    """Output of a git command; None without git, without a commit or in someone else's folder."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            # `status` would otherwise lock the index against the user's own git
            env={**inherited, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    return processor_says("model name") or platform.processor() or platform.machine()


def _compiled() -> bool:
    """Whether numba's loops take the place of torch's: they round differently."""
    from lrbench.kernels.choice import Means, available

    return available(Means.NUMBA)


def _scans() -> dict[str, Any]:
    """Whether Triton's kernels would be used on a GPU, and which table `auto` goes by."""
    from lrbench.kernels.choice import Means, available
    from lrbench.scan.algorithms.fastest import table_digest

    return {
        "fused": available(Means.TRITON),
        "onednn": available(Means.ONEDNN),
        "scan_table": table_digest(),
    }


def _devices() -> dict[str, Any]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "devices": [torch.cuda.get_device_name(index) for index in range(count)],
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
    }
