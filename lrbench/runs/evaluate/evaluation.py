"""The work of `lrbench evaluate`: scores of a run's checkpoint, in a new file of its folder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor, nn

from lrbench.disk import may_write
from lrbench.errors import Interrupted, UserError
from lrbench.records import SCHEMA, Evaluation
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.folder import files
from lrbench.runs.train.display import ExaminationDisplay
from lrbench.runs.train.signals import StopRequest
from lrbench.runs.train.validate import resolve_device
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.procedure import EvaluationRequest, procedure_for
from lrbench.training.trial import Check

FOLDER = "evaluations"  # of a run


def evaluate_run(
    folder: Path,
    lengths: str,
    which: str,
    strings: int | None,
    device_name: str,
    splits: str = "",
    trees: int | None = None,
) -> list[Evaluation]:
    """Score a run's checkpoint at `lengths`, of a run over a corpus on `splits`; finished or not.

    trees: instead of scores, how the trees of so many strings of each split follow the brackets.
    Writes evaluations/<time>.json and returns its rows. Raises UserError as `score_run` does, and
    where nothing can be written.
    """
    target = folder / FOLDER
    if folder.is_dir() and not may_write(target):  # said before the work, not after it
        raise UserError(f"'{target}' cannot be written to\nevaluate a copy of the run's folder")
    name = f"{folder.absolute().parent.name}/{folder.name}"
    with ExaminationDisplay("evaluating", [name]) as display:
        rows, device = score_run(
            *(folder, lengths, which, strings, device_name),
            splits=splits,
            trees=trees,
            display=display,
        )
    _keep(folder, rows, device)
    return rows


@run_arithmetic()
def score_run(
    folder: Path,
    lengths: str,
    which: str,
    strings: int | None,
    device_name: str,
    purpose: str = "evaluate",
    splits: str = "",
    trees: int | None = None,
    display: ExaminationDisplay | None = None,
) -> tuple[list[Evaluation], torch.device]:
    """Score a run's checkpoint at `lengths` on the strings of a purpose; return rows and device.

    No rule (`which`): the usual one of the run's protocol.
    A run over a corpus is scored on whole `splits`. Raises UserError for a folder that holds no
    run, a rule that kept nothing, a length or split the task does not have, and for lengths where
    splits belong or the other way round.
    """
    if strings is not None and strings < 1:
        raise UserError(f"--strings must be at least 1, not {strings}", exit_code=2)
    if trees is not None and trees < 1:
        raise UserError(f"--trees must be at least 1, not {trees}", exit_code=2)
    device = resolve_device(device_name)
    run = trained(folder, which)
    procedure = procedure_for(run.config)
    request = EvaluationRequest(lengths, strings, splits, trees)
    procedure.refuse(request)
    torch.set_num_threads(run.config.threads)
    trial = procedure.trial(run.seed, device)
    take_weights(trial.model, run.weights, folder, run.rule)
    with StopRequest() as stop:
        check = _checked(stop)
        part = None if display is None else display.part(display.names[0], check)
        rows = procedure.evaluate(trial, request, run.rule, part or check, purpose)
        if part is not None:
            part.end()
    return _of_checkpoint(rows, run.step), device


def _of_checkpoint(rows: list[Evaluation], step: int) -> list[Evaluation]:
    """Rows that tell their checkpoint: a run may go on, and keep another by the same rule."""
    return [{**row, "checkpoint_step": step} for row in rows]


def take_weights(model: nn.Module, weights: dict[str, Tensor], folder: Path, which: str) -> None:
    """Load the weights that a rule kept of a run; UserError if they are of another model."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise UserError(
            f"{folder}: the '{which}' checkpoint is not of the model that its configuration names"
        ) from error


def _checked(stop: StopRequest) -> Check:
    def check(read: int = 0, planned: int = 0) -> None:
        if stop.requested:
            raise Interrupted(f"{stop.name}: stopped before the end; no score was kept")

    return check


def _keep(folder: Path, rows: list[Evaluation], device: torch.device) -> None:
    target = folder / FOLDER
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    try:
        target.mkdir(exist_ok=True)
        files.sweep_temporary(target)  # of an evaluation that was killed while it wrote here
        content = {"schema": SCHEMA, "device": str(device), "when": stamp, "evaluations": rows}
        files.write_json(target / f"{stamp}.json", content)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}") from error
