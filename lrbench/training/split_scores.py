"""Accuracy on splits of a corpus: dev looks, and the tests at the end of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from lrbench.tasks.corpus.strings import Strings
from lrbench.training.epochs import EpochTrial, Rows, strings_at

Check = Callable[[], None]

# Positions in a batch, padding included; strings are sorted by length, so there is little of that.
POSITIONS = 1 << 13
MOST = 256  # strings in a batch


@dataclass(frozen=True)
class SplitScore:
    """What the n strings of a split gave: right answers and the mean cross-entropy."""

    n: int
    correct: int
    loss: float
    longest: int
    seconds: float

    @property
    def accuracy(self) -> float:
        return self.correct / self.n


@torch.no_grad()
def score_split(
    model: nn.Module, strings: Strings, device: torch.device | str, check: Check = lambda: None
) -> SplitScore:
    """Score a model on every string of a split, without dropout.

    check: called between batches; may raise to stop (a signal, a lost lease).
    """
    began = time.perf_counter()
    correct, loss = 0, 0.0
    sizes = _sizes(strings)
    for rows in batches_by_length(sizes):
        check()
        inputs, labels = strings_at(strings, rows, device)
        logits = model(*inputs)
        answered = logits.isfinite().all(-1)  # argmax makes something of NaN
        correct += int((answered & (logits.argmax(-1) == labels)).sum())
        loss += float(cross_entropy(logits.double(), labels, reduction="sum"))
    seconds = time.perf_counter() - began
    return SplitScore(len(strings), correct, loss / len(strings), int(sizes.max()), seconds)


def take_dev_look(trial: EpochTrial, check: Check) -> dict[str, Any]:
    """Examine a trial on its dev split as it is now; return plain numbers."""
    dev = trial.task.load(trial.config.protocol.dev_split)
    score = score_split(trial.model, dev, trial.device, check)
    return {
        "step": trial.step,
        "epoch": round(trial.step / trial.updates_per_epoch, 3),
        "validation_accuracy": score.accuracy,
        "validation_loss": score.loss,
        "validation_n": score.n,
        "seconds": trial.seconds,
    }


def split_tests(
    trial: EpochTrial, load: Callable[[str], dict[str, Any]], check: Check
) -> list[dict[str, Any]]:
    """Score the checkpoint that each rule kept on the test splits; return evaluation rows."""
    protocol = trial.config.protocol
    rows: list[dict[str, Any]] = []
    examined: dict[int, list[dict[str, Any]]] = {}
    for rule, step in trial.rules.steps().items():
        if step not in examined:
            trial.model.load_state_dict(load(rule))
            examined[step] = [_test(trial, split, check) for split in protocol.test_splits]
        rows += _look_rows(trial, trial.rules.kept[rule], rule)
        rows += [{**row, "which": rule} for row in examined[step]]
    return rows


def split_baselines(trial: EpochTrial, check: Check) -> list[dict[str, Any]]:
    """Return what predictors that know next to nothing reach on the test splits."""
    protocol, found = trial.config.protocol, []
    for split in protocol.test_splits:
        check()
        n = len(trial.task.load(split))
        for name, value in trial.task.baselines(split, protocol.train_split).items():
            found.append({"baseline": name, "split": split, "value": value, "n": n})
    return found


def batches_by_length(sizes: Rows) -> Iterator[Rows]:
    """Yield all strings, shortest first, in batches of about `POSITIONS` positions."""
    order = np.argsort(sizes, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < min(len(order), start + MOST):
            if (stop + 1 - start) * sizes[order[stop]] > POSITIONS:
                break
            stop += 1
        yield order[start:stop]
        start = stop


def _sizes(strings: Strings) -> Rows:
    """Return the length of each string, of a pair that of its longer side."""
    lengths = strings.lengths
    return lengths if lengths.ndim == 1 else lengths.max(1)


def _test(trial: EpochTrial, split: str, check: Check) -> dict[str, Any]:
    score = score_split(trial.model, trial.task.load(split), trial.device, check)
    row = _row(split, score.longest, "accuracy", score.accuracy, score.n, "test")
    return {**row, "seconds": round(score.seconds, 3)}


def _look_rows(trial: EpochTrial, look: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    split = trial.config.protocol.dev_split
    longest = int(_sizes(trial.task.load(split)).max())
    return [
        {
            **_row(split, longest, metric, look[f"validation_{metric}"], look["validation_n"]),
            "which": rule,
        }
        for metric in ("accuracy", "loss")
    ]


def _row(
    split: str, longest: int, metric: str, value: float, n: int, kind: str = "look"
) -> dict[str, Any]:
    """Return a row of result.json; `length` is that of the longest string."""
    row = {"length": longest, "split": split, "metric": metric, "value": value, "n": n}
    return {**row, "kind": kind}
