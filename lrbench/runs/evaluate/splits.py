"""What `lrbench evaluate` does for a run over a corpus: its checkpoint on whole splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lrbench.errors import UserError
from lrbench.runs.evaluate.memory import PeakMemory
from lrbench.statistics import wilson
from lrbench.training.epochs import EpochTrial
from lrbench.training.split_scores import score_split


def named_splits(trial: EpochTrial, text: str) -> list[str]:
    """Return the splits of a list that was typed, all of them readable; default: the tested ones.

    Raises UserError for a split that the task does not have or that is not on disk.
    """
    words = [word for word in text.replace(",", " ").split() if word]
    splits = list(dict.fromkeys(words or trial.config.protocol.test_splits))
    if not splits:
        raise UserError(
            f"which splits of {trial.task.name}? its protocol.test_splits names none\n"
            "name some: --splits dev",
            exit_code=2,
        )
    for split in splits:
        trial.task.load(split)
    return splits


def split_row(
    trial: EpochTrial, split: str, which: str, check: Callable[[], None]
) -> dict[str, Any]:
    """Score a trial, as it is, on every string of a split; return an evaluation row.

    `chance` is the best baseline there, and `baseline` its name.
    """
    with PeakMemory(trial.device) as peak:
        score = score_split(trial.model, trial.task.load(split), trial.device, check)
    check()
    levels = trial.task.baselines(split, trial.config.protocol.train_split)
    name = max(levels, key=lambda name: levels[name], default=None)
    return {
        "length": score.longest,
        "split": split,
        "metric": "accuracy",
        "value": score.accuracy,
        "n": score.n,
        "interval": list(wilson(score.correct, score.n)),
        "which": which,
        "kind": "test",
        "chance": None if name is None else levels[name],
        "baseline": name,
        "peak_mib": round(peak.mib, 1),
        "seconds": round(score.seconds, 3),
    }
