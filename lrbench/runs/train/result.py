"""The end of a run: its result.json, with all that a report needs, and the message to the user."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from lrbench.console import messages, results
from lrbench.records import (
    SCHEMA,
    Baseline,
    Evaluation,
    Guessing,
    Horizon,
    Result,
    SplitData,
)
from lrbench.report.output.summary import run_summary
from lrbench.report.output.trials import trials_summary
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.versions import not_hashed
from lrbench.training.trial import Trial


def assemble(
    cell: Cell,
    trial: Trial,
    evaluations: list[Evaluation],
    horizons: dict[str, Horizon],
    baselines: list[Baseline],
    guessing: list[Guessing],
    data: dict[str, SplitData] | None = None,
) -> Result:
    """Return the content of result.json for a trial that has ended."""
    config = cell.config
    result: Any = {
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
        **({} if trial.epoch is None else {"epochs": trial.epoch}),
        "stopped": trial.stopped,
        "train_seconds": round(trial.seconds, 3),
        **({"telemetry": summary} if (summary := trial.telemetry.summary()) else {}),
        "parameters": trial.parameters,
        "state_size": getattr(trial.model, "state_size", None),
        "device": str(trial.device),
        "dtype": trial.dtype,
        "mode": getattr(trial.model, "mode", None),
        "threads": config.threads,
        **({} if data is None else {"data": data}),
        **({"not_hashed": opened} if (opened := not_hashed(cell.versions)) else {}),
        **({} if (drawn := trial.task.drawn()) is None else {"automaton": drawn}),
        "checkpoints": trial.rules.steps(),
        "perfect_look": trial.perfect_look,
        "evaluations": evaluations,
        "baselines": baselines,
        "guessing": guessing,
        "horizon": horizons,
    }
    return result  # type: ignore[no-any-return]


def task_title(task: Any) -> str:
    """Return how a task is called in a table: sum (mod 5), or as its settings say."""
    if (title := getattr(task, "title", None)) is not None:
        return str(title)
    modulus = getattr(task, "modulus", None)
    return task.name if modulus is None else f"{task.name} (mod {modulus})"


@dataclass(frozen=True)
class Outcome:
    """One run's end: finished, diverged, skipped (was finished before) or failed."""

    seed: int
    folder: Path
    status: str
    result: Result | None = None
    message: str = ""
    traceback: str = ""


def report_outcomes(outcomes: list[Outcome], console: Console | None = None) -> int:
    """Print every outcome, results on `console`; return the exit code, 1 if a run failed.

    console: stdout unless given.
    """
    console = console or results()
    ended: list[tuple[Result, Path]] = []
    for outcome in outcomes:
        if outcome.status == "skipped":
            status = outcome.result["status"] if outcome.result else None
            messages().print(
                f"seed {outcome.seed}: already {status}, nothing to do (force=true trains it again)"
            )
        if outcome.result is not None:
            ended.append((outcome.result, outcome.folder))
        if outcome.status == "failed":
            if outcome.traceback:
                print(outcome.traceback, file=sys.stderr)
            print(f"lrbench: {outcome.message}", file=sys.stderr)
    if len(ended) == 1:
        run_summary(*ended[0], console)
    elif ended:
        trials_summary(ended, console)
    return 1 if any(outcome.status == "failed" for outcome in outcomes) else 0
