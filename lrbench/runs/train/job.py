"""The job of one cell, from start to end: finished runs are skipped, begun ones resumed."""

from __future__ import annotations

import errno
import time
import traceback
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import torch

from lrbench.config import Config
from lrbench.console import messages
from lrbench.disk import CANNOT_WRITE, IN_THE_WAY
from lrbench.errors import Interrupted, UserError
from lrbench.records import Result
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.run import Run
from lrbench.runs.folder.start import Start, start_of
from lrbench.runs.folder.versions import told_of
from lrbench.runs.lease import Lease
from lrbench.runs.track.live import LiveTracking
from lrbench.runs.train.display import Display, ExaminationDisplay, Part
from lrbench.runs.train.result import Outcome, assemble
from lrbench.runs.train.signals import StopRequest
from lrbench.runs.train.validate import out_of_memory, validated
from lrbench.runs.train.watch import GroupWatch, LeaseLost
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.group.members import SideBySide, members_for
from lrbench.training.loop import train_group
from lrbench.training.memory import keep_freed_memory
from lrbench.training.precision import round_weights
from lrbench.training.procedure import make_trial, procedure_for
from lrbench.training.trial import Trial


def run_cell(config: Config) -> list[Outcome]:
    """Train and examine every trial of a cell that has no result yet.

    Raises UserError for a configuration that cannot run, before anything is written, and for a
    folder that cannot be written; Interrupted on SIGTERM or Ctrl-C, with everything on disk that
    resuming needs.
    """
    device = validated(config)
    torch.set_num_threads(config.threads)
    keep_freed_memory()
    cell = Cell.of(config)
    try:
        with run_arithmetic():
            outcomes = _run(cell, device)
    except OSError as error:
        if error.errno in (*CANNOT_WRITE, *IN_THE_WAY):
            raise UserError(_cannot_write(error, cell.folder)) from error
        raise
    except KeyboardInterrupt as insisted:  # a second Ctrl-C
        message = "interrupted; the same command goes on from the last checkpoint"
        raise Interrupted(message) from insisted
    return sorted(outcomes, key=lambda outcome: outcome.seed)


def _run(cell: Cell, device: torch.device) -> list[Outcome]:
    cell.open()
    with StopRequest() as stop, ExitStack() as stack:
        outcomes, runs, leases = _claim(cell, stop, stack)
        if runs:
            cell.describe_environment()
            trials = [make_trial(cell.config, seed, device) for seed in runs]
            outcomes += _train(trials, runs, leases, stop)
            cell.describe_kernels()
    return outcomes


def _claim(
    cell: Cell, stop: StopRequest, stack: ExitStack
) -> tuple[list[Outcome], dict[int, Run], dict[int, Lease]]:
    """Take the lease of every run that is to be done; those with a result are outcomes."""
    outcomes: list[Outcome] = []
    runs: dict[int, Run] = {}
    leases: dict[int, Lease] = {}
    for seed in cell.seeds:
        run = Run(cell, seed, fresh=cell.config.force)
        result = None if run.fresh or run.swap_was_cut_off else run.result()
        if result is None:
            lease = stack.enter_context(_lease(run, stop))
            swapped = run.open()
            # whoever held the lease before may have done the work, or all of it but a rename
            result = run.result() if swapped or not run.fresh else None
            if result is None:
                runs[seed], leases[seed] = run, lease
                continue
            lease.release()
        outcomes.append(Outcome(seed, run.final_folder, "skipped", result))
    return outcomes, runs, leases


def _lease(run: Run, stop: StopRequest) -> Lease:
    def tell(text: str) -> None:
        messages().print(text, markup=False)

    run.lease_folder.mkdir(parents=True, exist_ok=True)
    return Lease(run.lease_folder, on_wait=tell, stop=lambda: stop.requested, name=run.final_folder)


def _train(
    trials: list[Trial], runs: dict[int, Run], leases: dict[int, Lease], stop: StopRequest
) -> list[Outcome]:
    """Train a group from its checkpoints to its results."""
    with (
        members_for(trials, lambda line: messages().print(line, markup=False)) as members,
        LiveTracking(trials[0].config.track, runs) as tracking,
    ):
        try:
            start = start_of(trials[0].config)
            for trial in trials:
                run = runs[trial.seed]
                if start is not None:
                    _refuse_other_start(start, run)
                restored = run.restore(trial)
                for told in run.passed_over:
                    messages().print(f"seed {trial.seed}: {told}", markup=False)
                if restored:
                    messages().print(f"seed {trial.seed}: going on from update {trial.step:,}")
                elif start is not None:
                    trial.model.load_state_dict(start.weights)
                    if trial.rounding:
                        round_weights(trial.model)
                    run.log(f"begins with the last weights of {start.folder}")
            tracking.begin()
            with Display(trials) as display:
                watch = GroupWatch(trials, runs, leases, stop, display, tracking)
                train_group(trials, watch, members)
        except (Interrupted, LeaseLost):
            raise
        except (Exception, SystemExit) as error:  # a plug-in's sys.exit(0) would end in silence
            return [_failed(trial, runs[trial.seed], error) for trial in trials]
        return _ended(trials, runs, watch, members)


def _refuse_other_start(start: Start, run: Run) -> None:
    """Refuse weights that are not those that name the cell: trained anew since, while we waited."""
    named = run.cell.settings["protocol"]["start_from"]
    if start.digest != named:
        raise UserError(
            f"protocol.start_from: {start.folder} has other weights now than when this began\n"
            "run the same command again: it begins the cell of those weights"
        )


def _ended(
    trials: list[Trial], runs: dict[int, Run], watch: GroupWatch, members: SideBySide
) -> list[Outcome]:
    """Tell of the trials that failed, and examine the others."""
    outcomes = []
    for trial in trials:
        if trial.seed in watch.failures:
            outcomes.append(_failed(trial, runs[trial.seed], watch.failures[trial.seed]))
    whole = [trial for trial in trials if trial.seed not in watch.failures]
    names = {trial.seed: f"{trial.task.name} seed {trial.seed}" for trial in whole}
    with ExaminationDisplay("examining", list(names.values())) as display:

        def finish(trial: Trial) -> Outcome:
            part = display.part(names[trial.seed], watch.check)
            return _finish(trial, runs[trial.seed], watch, part)

        for outcome in members.each(finish, whole):
            if isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)
    for outcome in outcomes:
        for told in told_of(outcome.result.get("not_hashed", {})) if outcome.result else ():
            _say_once(told)
    return outcomes


def _finish(trial: Trial, run: Run, watch: GroupWatch, part: Part) -> Outcome:
    """Examine a trained trial and write its result."""
    try:
        result = _examine(trial, run, part)
        watch.finished(trial, result)
    except (Interrupted, LeaseLost):
        raise
    except (Exception, SystemExit) as error:
        return _failed(trial, run, error)
    return Outcome(trial.seed, run.final_folder, result["status"], result)


def _examine(trial: Trial, run: Run, part: Part) -> Result:
    if trial.stopped == "diverged":
        messages().print(f"seed {trial.seed}: diverged by update {trial.step:,}")
    messages().print(f"seed {trial.seed}: examining on fresh strings")
    begun = time.perf_counter()
    procedure = procedure_for(trial.config)
    rows, horizons = procedure.examine(trial, run.examined, part)
    baselines, guessing = procedure.levels(trial, part)
    data = procedure.data()
    part.end()
    result = assemble(run.cell, trial, rows, horizons, baselines, guessing, data)
    seconds = time.perf_counter() - begun + run.examined.seconds
    result["examination_seconds"] = round(seconds, 3)
    for told in told_of(result.get("not_hashed", {})):
        run.log(told)
    return result


@cache
def _say_once(text: str) -> None:
    """Print a message that would be the same for each run of the process."""
    messages().print(text, markup=False, soft_wrap=True)


def _failed(trial: Trial, run: Run, error: Exception | SystemExit) -> Outcome:
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


def _known_cause(error: Exception | SystemExit, run: Run) -> str | None:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno in (*CANNOT_WRITE, *IN_THE_WAY):
        return _cannot_write(error, run.folder)
    if isinstance(error, UnreadableFile) and error.path.exists() and not error.path.is_file():
        return f"{error}\n{_in_the_way(run.folder)}"
    if memory := out_of_memory(error):
        return f"{memory}\nmake protocol.batch_size, model.width or model.layers smaller"
    return None


def _cannot_write(error: OSError, folder: Path) -> str:
    if error.errno == errno.EISDIR and error.filename:
        return f"{error.filename}: {str(error.strerror).lower()}\n{_in_the_way(folder)}"
    if error.errno in IN_THE_WAY and error.filename:
        return (
            f"{error.filename}: {str(error.strerror).lower()}\n"
            f"a file lies where {folder} has a folder; move it away and run the same command again"
        )
    return (
        f"{folder} cannot be written to: {error.strerror}\n"
        "nothing that was kept is lost; mend that and run the same command again"
    )


def _in_the_way(folder: Path) -> str:
    return f"a file belongs there; move it out of {folder} and run the same command again"
