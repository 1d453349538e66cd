"""What knows nothing of the rule: measured accuracies to hold every other accuracy against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import torch

from lrbench.metrics import ACCURACY, Metric
from lrbench.records import Baseline
from lrbench.tasks.base import IGNORE, Device, SampledTask
from lrbench.tasks.stream import Stream, integers

_ROWS, _SEGMENT = 1_000, 512  # strings and positions held at once: memory does not grow with either

Ends = list[tuple[int, int]]  # (last token, answer at the final position) of each string


def measure_baselines(
    task: SampledTask, stream: Stream, length: int, n: int, device: Device
) -> list[Baseline]:
    """Measure predictors that ignore the rule, at the final position of strings of `length`.

    Each is fitted on `n` strings and scored on `n` others. Returns one {"baseline", "length",
    "value", "n"} each for `uniform` (a random class), `majority` (the commonest answer over all
    positions), `position` (the commonest at the final position) and `last_token` (the commonest
    there given the token there). Tasks of series have their own, measured once on the test split.
    Raises UserError for a length the task does not have.
    """
    if (known := task.known_baselines(length)) is not None:
        values, n = known
        return [
            {"baseline": name, "length": length, "value": value, "n": n}
            for name, value in values.items()
        ]
    counts = torch.zeros(task.num_classes, dtype=torch.int64, device=device)
    fit = list(_ends(task, stream, length, n, device, counts))
    fresh = list(_ends(task, stream.from_row(n), length, n, device, None))
    guesses = integers(stream.fold("guess"), 0, n, 0, 1, task.num_classes, "cpu")[:, 0].tolist()
    position = Counter(answer for _, answer in fit).most_common(1)[0][0]
    answers = {
        "uniform": guesses,
        "majority": [int(counts.argmax())] * n,
        "position": [position] * n,
        "last_token": list(map(_by_last_token(fit, position), (token for token, _ in fresh))),
    }
    return [
        {"baseline": name, "length": length, "value": _accuracy(predicted, fresh), "n": n}
        for name, predicted in answers.items()
    ]


def best_baseline(baselines: list[Baseline], metric: Metric = ACCURACY) -> Baseline:
    """Return the best of them, the first listed where several are."""
    return max(baselines, key=lambda baseline: metric.merit(baseline["value"]))


def _ends(
    task: SampledTask,
    stream: Stream,
    length: int,
    n: int,
    device: Device,
    counts: torch.Tensor | None,
) -> Iterator[tuple[int, int]]:
    """Yield the last token and last answer of `n` strings; add all answers to `counts`."""
    for row in range(0, n, _ROWS):
        rows = min(_ROWS, n - row)
        for piece in task.segments(stream.from_row(row), rows, length, _SEGMENT, device):
            if counts is not None:
                asked = piece.targets[piece.targets != IGNORE]
                counts += torch.bincount(asked, minlength=len(counts))
        yield from zip(piece.tokens[:, -1].tolist(), piece.targets[:, -1].tolist(), strict=True)


def _by_last_token(fit: Ends, otherwise: int) -> Callable[[int], int]:
    """Return the commonest answer after each token of `fit`, `otherwise` for tokens not in it."""
    commonest: dict[int, int] = {}
    for (token, answer), _ in Counter(fit).most_common():
        commonest.setdefault(token, answer)
    return lambda token: commonest.get(token, otherwise)


def _accuracy(predicted: list[int], fresh: Ends) -> float:
    return sum(p == answer for p, (_, answer) in zip(predicted, fresh, strict=True)) / len(fresh)
