"""The launcher of a sweep: the one that was typed, its defaults, devices, --detach."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lrbench.checks import shown
from lrbench.errors import UserError
from lrbench.machine import available_cores
from lrbench.sweeps.launch.devices import VISIBLE, named_devices

if TYPE_CHECKING:
    from lrbench.sweeps.plan.plan import Plan

LAUNCHER, SETTING, DEVICES = "hydra/launcher", "hydra.launcher.", "devices"
N_JOBS, ALL_PROCESSORS = f"{SETTING}n_jobs", -1
BASIC, JOBLIB, SLURM, LOCAL = "basic", "joblib", "submitit_slurm", "submitit_local"


def is_launcher(override: str) -> bool:
    """Whether a word is about where jobs run, and not about what they train."""
    key = _key(override)
    return key in (LAUNCHER, DEVICES) or key.startswith(SETTING)


def devices_in(overrides: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the launcher's words and the devices; several devices choose joblib by themselves.

    Raises UserError for devices that are none, and for a launcher that cannot use them.
    """
    rest = [override for override in overrides if _key(override) != DEVICES]
    named = [override.partition("=")[2] for override in overrides if _key(override) == DEVICES]
    if not named:
        return rest, ()
    devices = named_devices(named[-1], os.environ.get(VISIBLE))
    if not any(_key(override) == LAUNCHER for override in rest):
        rest = [f"{LAUNCHER}=joblib", *rest]
    name = launcher_of(rest)
    if name == SLURM:
        raise UserError(
            "devices goes with joblib and submitit_local: SLURM chooses the devices of its jobs\n"
            "write hydra.launcher.gpus_per_node=1"
        )
    if name == BASIC and len(devices) > 1:
        raise UserError(
            "the basic launcher trains one run after the other, and needs one device\n"
            f"write {LAUNCHER}=joblib"
        )
    _check_n_jobs(rest, devices)
    return rest, devices


def check_devices(devices: Sequence[str], plan: Plan) -> None:
    """Refuse devices without a GPU: what looks for one would train on the CPU without a word."""
    if not devices or all(run.cell.config.device == "cpu" for run in plan.to_do):
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"devices={','.join(devices)}: torch finds no GPU here; runs would use the CPU\n"
            "leave devices out, or write device=cpu beside it"
        )


def launcher_of(overrides: Sequence[str]) -> str:
    """Return the name of the launcher that these words choose."""
    chosen = [override.partition("=")[2] for override in overrides if _key(override) == LAUNCHER]
    return chosen[-1] if chosen else BASIC


def queue_of(overrides: Sequence[str], plan: Plan) -> Path | None:
    """Return the folder that the jobs of a queue and this process share; None without a queue."""
    return submitit_folder(plan) if launcher_of(overrides) == SLURM else None


def submitit_folder(plan: Plan) -> Path:
    """Return where submitit keeps the logs and pickles of jobs: never in a run's folder."""
    return _output(plan) / ".submitit"


def with_defaults(overrides: Sequence[str], devices: Sequence[str], plan: Plan) -> list[str]:
    """Return the words for Hydra, with settings that fit this sweep unless they were typed."""
    name = launcher_of(overrides)
    given: dict[str, object] = {}
    if name == JOBLIB and devices:
        given["n_jobs"] = len(devices)
    if name in (LOCAL, SLURM):
        folder = str(submitit_folder(plan).absolute() / "%j").replace("'", "\\'")
        given["submitit_folder"] = f"'{folder}'"
        given["cpus_per_task"] = max(run.cell.config.threads for run in plan.runs)
        given["name"] = "lrbench"
        given["timeout_min"] = 30 * 24 * 60  # a local job has no reason to end before its run does
    if name == SLURM:
        # short jobs find a place sooner, and at their end they keep a checkpoint and queue again
        given |= {"timeout_min": 240, "max_num_timeout": 100, "mem_gb": 4}
    typed = {_key(override) for override in overrides}
    return [
        *(_no_more_than(len(plan.jobs), override) for override in overrides),
        *(f"{SETTING}{key}={each}" for key, each in given.items() if SETTING + key not in typed),
    ]


def start_in_background(plan: Plan) -> str:
    """Start this very command, without --detach, as a process of its own; say where it is.

    It has no terminal and belongs to no session, so it outlives both.
    """
    folder = _output(plan) / ".sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    overrides = [override for override in sys.argv[1:] if override != "--detach"]
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "lrbench", *overrides],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return f"process {process.pid}; it writes {log}; kill {process.pid} stops it, resumably"


def _output(plan: Plan) -> Path:
    return Path(plan.runs[0].cell.config.output_dir)


def _check_n_jobs(overrides: Sequence[str], devices: Sequence[str]) -> None:
    for override in overrides:
        key, _, value = override.partition("=")
        if key == N_JOBS and value not in map(str, range(1, len(devices) + 1)):
            raise UserError(
                f"{key} must be 1 to {len(devices)}, one run for each of devices="
                f"{','.join(devices)}, not '{shown(value)}'"
            )


def check_processes(overrides: Sequence[str]) -> None:
    """Raise UserError for a number of processes that is neither positive nor -1, all processors.

    They have been composed: their values are whole numbers.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        if key == N_JOBS and (count := int(value)) < 1 and count != ALL_PROCESSORS:
            raise UserError(
                f"{key} must be at least 1, or -1 for all processors, not {shown(value)}"
            )


def _no_more_than(jobs: int, override: str) -> str:
    """Return the override; of n_jobs at most one process a job, since joblib starts them all."""
    key, _, value = override.partition("=")
    if key != N_JOBS:
        return override
    count = available_cores() if int(value) == ALL_PROCESSORS else int(value)
    return f"{key}={min(count, jobs)}"


def _key(override: str) -> str:
    return override.lstrip("+").partition("=")[0]
