"""What `lrbench evaluate` does: read a run, score its checkpoint, add a file to its folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrbench.errors import Interrupted, UserError
from lrbench.protocols.rir2023.declaration import Rir2023Config
from lrbench.runs.evaluate.memory import PeakMemory
from lrbench.runs.evaluate.splits import named_splits, split_row
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.folder import files
from lrbench.runs.train.signals import StopRequest
from lrbench.runs.train.validate import resolve_device
from lrbench.statistics import wilson
from lrbench.tasks.baselines import best_baseline, measure_baselines
from lrbench.training.epochs import EpochTrial
from lrbench.training.final import baseline_strings
from lrbench.training.scoring import score
from lrbench.training.start import make_trial
from lrbench.training.subnormals import flushed
from lrbench.training.trial import Trial

STRINGS = 1000  # for each length, where the user says nothing
FURTHER = "further"  # the split of lengths that were asked for


def evaluate_run(
    folder: Path,
    lengths: str,
    which: str,
    strings: int | None,
    device_name: str,
    splits: str = "",
) -> list[dict[str, Any]]:
    """Score a run's checkpoint at `lengths`, of a run over a corpus on `splits`; finished or not.

    Writes evaluations/<time>.json and returns its rows. Raises UserError as `score_run` does, and
    where nothing can be written.
    """
    rows, device = score_run(folder, lengths, which, strings, device_name, splits=splits)
    _keep(folder, rows, device)
    return rows


@flushed()
def score_run(
    folder: Path,
    lengths: str,
    which: str,
    strings: int | None,
    device_name: str,
    purpose: str = "evaluate",
    splits: str = "",
) -> tuple[list[dict[str, Any]], torch.device]:
    """Score a run's checkpoint at `lengths` on the strings of a purpose; return rows and device.

    A run over a corpus is scored on whole `splits`. Raises UserError for a folder that holds no
    run, a rule that kept nothing, a length or split the task does not have, and for lengths where
    splits belong or the other way round.
    """
    if strings is not None and strings < 1:
        raise UserError(f"--strings must be at least 1, not {strings}", exit_code=2)
    device = resolve_device(device_name)
    run = trained(folder, which)
    config = run.config
    over_corpus = isinstance(config.protocol, Rir2023Config)
    _check_kind(config.task.name, over_corpus, lengths, strings, splits)
    torch.set_num_threads(config.threads)
    trial = make_trial(config, run.seed, device)
    take_weights(trial.model, run.weights, folder, which)
    if isinstance(trial, EpochTrial):
        wanted = named_splits(trial, splits)
        with StopRequest() as stop:
            check = _checked(stop)
            rows = [split_row(trial, split, which, check) for split in wanted]
        return _of_checkpoint(rows, run.step), device
    lengths_wanted = _valid_lengths(trial, lengths)
    with StopRequest() as stop:
        n, check = strings or STRINGS, _checked(stop)
        rows = [_row(trial, length, n, which, check, purpose) for length in lengths_wanted]
    return _of_checkpoint(rows, run.step), device


def _of_checkpoint(rows: list[dict[str, Any]], step: int) -> list[dict[str, Any]]:
    """Rows that tell their checkpoint: a run may go on, and keep another by the same rule."""
    return [{**row, "checkpoint_step": step} for row in rows]


def _check_kind(
    task: str, over_corpus: bool, lengths: str, strings: int | None, splits: str
) -> None:
    """Refuse what belongs to the other kind of run."""
    if over_corpus and (lengths or strings is not None):
        raise UserError(
            f"{'--lengths' if lengths else '--strings'} does not go with a run over a corpus:"
            f" {task} is scored on whole splits\n"
            "name them instead, such as --splits dev; without, those of protocol.test_splits",
            exit_code=2,
        )
    if splits and not over_corpus:
        raise UserError(
            f"--splits does not go with this run: {task} draws its strings, at any length\n"
            "write --lengths 500,5003,100003",
            exit_code=2,
        )


def take_weights(model: nn.Module, weights: dict[str, Any], folder: Path, which: str) -> None:
    """Load the weights that a rule kept of a run; UserError if they are of another model."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise UserError(
            f"{folder}: the '{which}' checkpoint is not of the model that its configuration names"
        ) from error


def _valid_lengths(trial: Trial, lengths: str) -> list[int]:
    protocol = trial.config.protocol
    wanted = parse_lengths(lengths, [protocol.train_length, *protocol.test_lengths])
    for length in wanted:
        if not trial.task.valid_length(length):
            raise UserError(
                f"--lengths {length}: task {trial.task.name} has only {trial.task.length_rule}\n"
                f"the nearest below is {trial.task.nearest_length(length)}"
            )
    return wanted


def _checked(stop: StopRequest) -> Callable[[], None]:
    def check() -> None:
        if stop.requested:
            raise Interrupted(f"{stop.name}: stopped; no evaluation was written")

    return check


def parse_lengths(text: str, default: Iterable[int]) -> list[int]:
    """Return the lengths of a comma-separated text, `default` of none; UserError for no length."""
    if not text:
        return list(dict.fromkeys(default))
    lengths = []
    for word in text.replace("_", "").split(","):
        if not re.fullmatch(r"[1-9][0-9]{0,9}", word.strip()):
            raise UserError(
                f"--lengths '{text}': '{word}' is not a length; write 500,5003,100003", exit_code=2
            )
        lengths.append(int(word))
    return lengths


def _row(
    trial: Trial, length: int, strings: int, which: str, check: Callable[[], None], purpose: str
) -> dict[str, Any]:
    stream = trial.stream(purpose, length)
    with PeakMemory(trial.device) as peak:
        result = score(trial.model, trial.task, stream, length, strings, trial.device, check=check)
    chance = best_baseline(
        measure_baselines(
            trial.task,
            trial.stream("baseline", length),
            length,
            baseline_strings(length),
            trial.device,
        ),
        trial.task.metric,
    )
    interval = list(wilson(result.correct, result.n)) if trial.task.metric.counts else None
    return {
        "length": length,
        "split": FURTHER,
        "metric": trial.task.metric.name,
        "value": result.value,
        "n": result.n,
        "interval": interval,
        "which": which,
        "kind": "test",
        "chance": chance["value"],
        "peak_mib": round(peak.mib, 1),
        "seconds": round(result.seconds, 3),
    }


def _keep(folder: Path, rows: list[dict[str, Any]], device: torch.device) -> None:
    target = folder / "evaluations"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    try:
        target.mkdir(exist_ok=True)
        content = {"schema": 1, "device": str(device), "when": stamp, "evaluations": rows}
        files.write_json(target / f"{stamp}.json", content)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}") from error
