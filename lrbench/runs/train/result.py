"""result.json: everything a report needs of one run, in one file."""

from __future__ import annotations

from typing import Any

from lrbench.records import SCHEMA
from lrbench.runs.folder.cell import Cell
from lrbench.tasks.corpus.storage import identity
from lrbench.training.epochs import EpochTrial
from lrbench.training.trial import Trial


def assemble(
    cell: Cell,
    trial: Trial,
    evaluations: list[dict[str, Any]],
    horizons: dict[str, Any],
    baselines: list[dict[str, Any]],
    guessing: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the content of result.json for a trial that has ended."""
    config = cell.config
    return {
        "schema": SCHEMA,
        "task": config.task.name,
        "task_title": task_title(config.task),
        "model": config.model.name,
        "protocol": config.protocol.name,
        "seed": trial.seed,
        "data_seed": trial.data_seed,
        "fingerprint": cell.fingerprint,
        "config": {**cell.settings, "seed": trial.seed},
        "versions": cell.versions,
        "status": "diverged" if trial.stopped == "diverged" else "finished",
        "steps": trial.step,
        **({"epochs": round(trial.step / each, 3)} if (each := _updates_per_epoch(trial)) else {}),
        "stopped": trial.stopped,
        "train_seconds": round(trial.seconds, 3),
        # {iterations: mean an update, converged: share of updates, failed_at: update of the first
        # log with one that had not}, only of models that are solved by iteration
        **({"telemetry": told} if (told := trial.telemetry.summary()) else {}),
        "parameters": trial.parameters,
        "state_size": getattr(trial.model, "state_size", None),
        "device": str(trial.device),
        "dtype": trial.dtype,
        "mode": getattr(trial.model, "mode", None),
        "threads": config.threads,
        **_data(trial),
        "checkpoints": trial.rules.steps(),
        "perfect_look": trial.perfect_look,
        "evaluations": evaluations,
        "baselines": baselines,
        "guessing": guessing,
        "horizon": horizons,
    }


def _updates_per_epoch(trial: Trial) -> int | None:
    """A task that draws its strings has no epochs."""
    return getattr(trial, "updates_per_epoch", None)


def _data(trial: Trial) -> dict[str, Any]:
    """Return what tells the data of a run over a corpus from other data, by split."""
    if not isinstance(trial, EpochTrial):
        return {}
    protocol = trial.config.protocol
    named = (protocol.train_split, protocol.dev_split, *protocol.test_splits)
    whole = {split: identity(trial.task.load(split)) for split in named}
    parts = ("n", "made", "sha256")
    return {"data": {split: {key: told[key] for key in parts} for split, told in whole.items()}}


def task_title(task: Any) -> str:
    """Return how a task is called in a table: sum (mod 5)."""
    modulus = getattr(task, "modulus", None)
    return task.name if modulus is None else f"{task.name} (mod {modulus})"
