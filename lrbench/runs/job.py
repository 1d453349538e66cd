"""One cell from start to end: what is finished is skipped, what is begun goes on."""

from __future__ import annotations

import errno
import traceback
from contextlib import ExitStack
from typing import Any

import torch

from lrbench.config import Config
from lrbench.console import messages
from lrbench.errors import Interrupted, UserError
from lrbench.runs.cell import Cell
from lrbench.runs.lease import Lease
from lrbench.runs.outcome import Outcome
from lrbench.runs.progress import Display
from lrbench.runs.result import assemble
from lrbench.runs.run import Run
from lrbench.runs.signals import StopRequest
from lrbench.runs.validate import validated
from lrbench.runs.watch import GroupWatch
from lrbench.training.final import chance_levels, final_tests
from lrbench.training.loop import train_group
from lrbench.training.trial import Trial


def run_cell(config: Config) -> list[Outcome]:
    """Train and examine every trial of a cell that has no result yet.

    Raises UserError for a configuration that cannot run, before anything is written, and
    Interrupted on SIGTERM or Ctrl-C, with everything on disk that resuming needs.
    """
    device = validated(config)
    torch.set_num_threads(config.threads)
    cell = Cell.of(config)
    cell.open()
    with StopRequest() as stop, ExitStack() as stack:
        outcomes, runs, leases = _claim(cell, stop, stack)
        if runs:
            trials = [Trial(config, seed, device) for seed in runs]
            outcomes += _train(trials, runs, leases, stop)
    return sorted(outcomes, key=lambda outcome: outcome.seed)


def _claim(
    cell: Cell, stop: StopRequest, stack: ExitStack
) -> tuple[list[Outcome], dict[int, Run], dict[int, Lease]]:
    """Take the lease of every run that is to be done; those with a result are outcomes."""
    outcomes: list[Outcome] = []
    runs: dict[int, Run] = {}
    leases: dict[int, Lease] = {}
    for seed in cell.seeds:
        run = Run(cell, seed, fresh=cell.config.force)
        if not cell.config.force and run.final_folder.exists():
            result = run.result()
            if result is not None:
                outcomes.append(Outcome(seed, run.final_folder, "skipped", result))
                continue
        run.open()
        lease = Lease(run.folder, on_wait=messages().print, stop=lambda: stop.requested)
        stack.enter_context(lease)
        result = run.result() if lease.how != "free" and not run.fresh else None
        if result is not None:  # whoever held the lease has done the work
            outcomes.append(Outcome(seed, run.final_folder, "skipped", result))
            continue
        runs[seed], leases[seed] = run, lease
    return outcomes, runs, leases


def _train(
    trials: list[Trial], runs: dict[int, Run], leases: dict[int, Lease], stop: StopRequest
) -> list[Outcome]:
    """Train a group from its checkpoints to its results."""
    outcomes = []
    try:
        for trial in trials:
            if runs[trial.seed].restore(trial):
                messages().print(f"seed {trial.seed}: going on from update {trial.step:,}")
        with Display(trials) as display:
            watch = GroupWatch(runs, leases, stop, display)
            train_group(trials, watch)
        for trial in trials:
            outcomes.append(_finish(trial, runs[trial.seed], watch))
            leases[trial.seed].release()
    except (Interrupted, KeyboardInterrupt):
        raise
    except Exception as error:
        done = {outcome.seed for outcome in outcomes}
        outcomes += [_failed(t, runs[t.seed], error) for t in trials if t.seed not in done]
    return outcomes


def _finish(trial: Trial, run: Run, watch: GroupWatch) -> Outcome:
    """Examine a trained trial and write its result."""
    if trial.stopped == "diverged":
        messages().print(f"seed {trial.seed}: diverged by update {trial.step:,}")
    messages().print(f"seed {trial.seed}: examining on fresh strings")
    rows, horizons = final_tests(trial, run.kept, watch.check)
    baselines, guessing = chance_levels(trial, watch.check)
    result: dict[str, Any] = assemble(run.cell, trial, rows, horizons, baselines, guessing)
    run.finish(result)
    return Outcome(trial.seed, run.final_folder, result["status"], result)


def _failed(trial: Trial, run: Run, error: Exception) -> Outcome:
    """Record why a run failed; a full disk or memory is told without a traceback."""
    known = _known_cause(error, run)
    message = known or (
        f"seed {trial.seed} failed at update {trial.step:,}: {type(error).__name__}: {error}\n"
        f"the traceback is in {run.folder / 'run.log'}; the same command tries again"
    )
    try:
        run.fail(error, trial.step)
    except OSError as unwritten:
        message += f"\nfailure.json could not be written: {unwritten.strerror}"
    text = "" if known else "".join(traceback.format_exception(error))
    return Outcome(trial.seed, run.folder, "failed", message=message, traceback=text)


def _known_cause(error: Exception, run: Run) -> str | None:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"{run.folder}: {error.strerror}\n"
            "nothing that was kept is lost; make room and run the same command again"
        )
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "alloc" in str(error):
        return (
            f"out of memory: {str(error).splitlines()[0] if str(error) else 'MemoryError'}\n"
            "make protocol.batch_size, model.width or model.layers smaller"
        )
    return None
