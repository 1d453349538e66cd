"""How a run ended, and what the user is told."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.console import messages, results
from lrbench.report.output.summary import run_summary


@dataclass(frozen=True)
class Outcome:
    """One run's end: finished, diverged, skipped (was finished before) or failed."""

    seed: int
    folder: Path
    status: str
    result: dict[str, Any] | None = None
    message: str = ""
    traceback: str = ""


def report_outcomes(outcomes: list[Outcome]) -> int:
    """Print every outcome, results on stdout; return the exit code, 1 if a run failed."""
    for outcome in outcomes:
        if outcome.status == "skipped":
            status = (outcome.result or {}).get("status")
            messages().print(
                f"seed {outcome.seed}: already {status}, nothing to do (force=true trains it again)"
            )
        if outcome.result is not None:
            run_summary(outcome.result, outcome.folder, results())
        if outcome.status == "failed":
            if outcome.traceback:
                print(outcome.traceback, file=sys.stderr)
            print(f"lrbench: {outcome.message}", file=sys.stderr)
    return 1 if any(outcome.status == "failed" for outcome in outcomes) else 0
