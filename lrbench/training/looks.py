"""Looks: the short examinations during training that rules choose between.

A look scores fresh strings at the first test length at their final position (128 in the paper), a
fixed validation set at the training length and a fixed one spread over the band of lengths just
beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lrbench.training.epochs import EpochTrial
from lrbench.training.scoring import Score, pooled, score
from lrbench.training.split_scores import take_dev_look
from lrbench.training.trial import Trial

BAND_LENGTHS = 16  # how many lengths stand for the band

Check = Callable[[], None]


def take_look(trial: Trial, check: Check) -> dict[str, Any]:
    """Examine a trial as it is now; return step, accuracies and losses as plain numbers.

    What a task is scored by has its name: test_accuracy, or test_nrmse. A run over a corpus looks
    at its dev split.
    """
    if isinstance(trial, EpochTrial):
        return take_dev_look(trial, check)
    protocol, metric = trial.config.protocol, trial.task.metric.name
    length = protocol.test_lengths[0]
    stream = trial.stream("look", length, trial.step)
    test = score(
        trial.model, trial.task, stream, length, protocol.look_size, trial.device, check=check
    )
    validation = _score_set(trial, [protocol.train_length], protocol.validation_size, check)
    beyond = band_lengths(trial)
    again = beyond == [protocol.train_length]  # the same strings: a corpus has no longer ones
    band = validation if again else _score_set(trial, beyond, protocol.validation_size, check)
    return {
        "step": trial.step,
        "test_length": length,
        f"test_{metric}": test.value,
        "test_n": test.n,
        f"validation_{metric}": pooled(validation),
        "validation_loss": _loss(validation),
        "validation_n": sum(s.n for s in validation),
        f"band_{metric}": pooled(band),
        "band_loss": _loss(band),
        "band_n": sum(s.n for s in band),
        "seconds": trial.seconds,
    }


def band_lengths(trial: Trial) -> list[int]:
    """Return up to `BAND_LENGTHS` valid lengths spread evenly over the band."""
    low, high = trial.config.protocol.band
    valid = [length for length in range(low, high + 1) if trial.task.valid_length(length)]
    if not valid:
        valid = [trial.task.nearest_length(high)]
    count = min(BAND_LENGTHS, len(valid))
    return [valid[round(i * (len(valid) - 1) / max(1, count - 1))] for i in range(count)]


def _score_set(trial: Trial, lengths: list[int], n: int, check: Check) -> list[Score]:
    """Score n validation strings, shared out over `lengths`: the same strings at every look."""
    shares = [n // len(lengths) + (i < n % len(lengths)) for i in range(len(lengths))]
    return [
        score(
            trial.model,
            trial.task,
            trial.stream("validation", length),
            length,
            share,
            trial.device,
            with_loss=True,
            check=check,
        )
        for length, share in zip(lengths, shares, strict=True)
        if share
    ]


def _loss(scores: list[Score]) -> float:
    return sum((s.loss or 0.0) * s.n for s in scores) / sum(s.n for s in scores)
