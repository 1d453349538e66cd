"""result.json: everything a report needs of one run, in one file."""

from __future__ import annotations

from typing import Any

from lrbench.report.schema import SCHEMA
from lrbench.runs.cell import Cell
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
        "parameters": trial.parameters,
        "state_size": getattr(trial.model, "state_size", None),
        "device": str(trial.device),
        "dtype": trial.dtype,
        "mode": getattr(trial.model, "mode", None),
        "threads": config.threads,
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


def task_title(task: Any) -> str:
    """Return how a task is called in a table: sum (mod 5)."""
    modulus = getattr(task, "modulus", None)
    return task.name if modulus is None else f"{task.name} (mod {modulus})"
