"""Jobs through submitit: processes of this machine, or SLURM's queue.

Hydra's own submitit launcher starts all local jobs at once, and waits for SLURM by way of its
accounting, which is often not there: a job that was cancelled would be waited for forever. So the
jobs are submitted and waited for here, with its settings and its way of running a job.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lrbench.machine import available_cores
from lrbench.sweeps.launch import slurm
from lrbench.sweeps.launch.worker import JobEnd

SHARED = {  # settings of every cluster; others get the cluster's name as prefix
    *("timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes"),
    *("name", "stderr_to_stdout"),
}
LARGEST_ARRAY = 500  # SLURM's own limit is 1001 unless it was raised
POLL_SECONDS = 0.2
STOP_SECONDS = 60.0  # for the checkpoints of jobs on other machines

OnSubmitted = Callable[[int, str], None]  # which of the jobs, under which id


def is_submitit(launcher: Any) -> bool:
    """Whether a Hydra launcher is one of the submitit plugin."""
    return type(launcher).__module__.startswith("hydra_plugins.hydra_submitit_launcher")


def launch(
    launcher: Any, jobs: Sequence[Sequence[str]], first: int, on_submitted: OnSubmitted
) -> list[JobEnd]:
    """Run jobs, given by their overrides, and return their ends in order."""
    from hydra.core.singleton import Singleton

    calls = [
        (list(job), "hydra.sweep.dir", index, f"job_{index}", Singleton.get_state())
        for index, job in enumerate(jobs, first)
    ]
    executor = _executor(launcher)
    task = launcher.task_function
    if launcher._EXECUTOR == "slurm":
        submitted = _submit_to_slurm(executor, launcher, calls, on_submitted)
        return [JobEnd("queued")] * len(calls) if task.detached else _await(submitted, task.parent)
    return _run_here(executor, launcher, calls)


def _executor(launcher: Any) -> Any:
    import submitit

    cluster = launcher._EXECUTOR
    settings = {key: value for key, value in launcher.params.items() if value is not None}
    folder = settings.pop("submitit_folder")
    retries = settings.pop("max_num_timeout", None)
    given = {} if retries is None else {f"{cluster}_max_num_timeout": retries}
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **given)
    named = {key if key in SHARED else f"{cluster}_{key}": each for key, each in settings.items()}
    executor.update_parameters(**named)
    return executor


def _run_here(executor: Any, launcher: Any, calls: Sequence[tuple[Any, ...]]) -> list[JobEnd]:
    """Run jobs in processes of their own, as many at once as there are devices, or cores."""
    parent, devices = launcher.task_function.parent, launcher.task_function.placement.devices
    cores = available_cores() // (launcher.params.get("cpus_per_task") or 1)
    at_once = len(devices) or max(1, cores)
    ends = [JobEnd("declined")] * len(calls)
    waiting = list(range(len(calls)))
    running: dict[int, Any] = {}
    while running or (waiting and not parent.wants_stop):
        while waiting and len(running) < at_once and not parent.wants_stop:
            index = waiting.pop(0)
            with _no_interrupt():
                running[index] = executor.submit(launcher, *calls[index])
        for index, job in list(running.items()):
            if job._process.poll() is not None:
                ends[index] = _end_of(running.pop(index), "process")
        time.sleep(POLL_SECONDS)
    return ends


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Start processes that a Ctrl-C in their terminal does not reach: the sweep tells them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _submit_to_slurm(
    executor: Any, launcher: Any, calls: Sequence[tuple[Any, ...]], on_submitted: OnSubmitted
) -> list[Any]:
    jobs: list[Any] = []
    for start in range(0, len(calls), LARGEST_ARRAY):
        for job in executor.map_array(
            launcher, *zip(*calls[start : start + LARGEST_ARRAY], strict=True)
        ):
            on_submitted(len(jobs), job.job_id)
            jobs.append(job)
    slurm.forget_answer()
    return jobs


def _await(jobs: Sequence[Any], parent: Any) -> list[JobEnd]:
    """Wait until each job has left its result, or the queue without one."""
    ends = [JobEnd("declined")] * len(jobs)
    open_jobs, missed = dict(enumerate(jobs)), dict.fromkeys(range(len(jobs)), 0)
    deadline, polled = 0.0, 0.0
    while open_jobs:
        for index, job in list(open_jobs.items()):
            if job.paths.result_pickle.exists() or missed[index] > 1:
                ends[index] = _end_of(open_jobs.pop(index), "SLURM job")
        if time.monotonic() - polled > slurm.SECONDS:
            polled, there = time.monotonic(), slurm.in_queue()
            for index, job in open_jobs.items():
                missed[index] += there is not None and job.job_id not in there
        if parent.wants_stop and not deadline:
            deadline = time.monotonic() + STOP_SECONDS
            slurm.cancel_waiting(job.job_id for job in open_jobs.values())
        if deadline and time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return ends


def _end_of(job: Any, kind: str) -> JobEnd:
    """Return what a job left; one that left nothing was killed."""
    from submitit.core.utils import pickle_load

    log = Path(job.paths.stderr)
    try:
        how, value = pickle_load(job.paths.result_pickle)
    except FileNotFoundError:
        return JobEnd("lost", f"{kind} {job.job_id} ended without a result; its log is {log}")
    if how != "success":
        return JobEnd("failed", f"{str(value).strip().splitlines()[-1]}\n{log}")
    returned = value._return_value  # its property would raise what went wrong
    return returned if isinstance(returned, JobEnd) else JobEnd("failed", f"{returned}\n{log}")
