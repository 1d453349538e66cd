"""Baselines that know nothing of the rule: accuracies to compare every other accuracy with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import torch

from lrbench.metrics import ACCURACY, Metric
from lrbench.records import Baseline
from lrbench.tasks.base import IGNORE, Device, SampledTask
from lrbench.tasks.chance import exact_baselines
from lrbench.tasks.stream import Stream, integers

_ROWS, _SEGMENT = 1_000, 512  # strings and positions held at once: memory does not grow with either
_POSITIONS = 1 << 20  # of whole strings with several answers each: held at once, rows x positions
_ANSWERS = 1 << 21  # and measured altogether

Ends = list[tuple[int, int]]  # (last token, answer at the final position) of each string


def measure_baselines(
    task: SampledTask, stream: Stream, length: int, n: int, device: Device
) -> list[Baseline]:
    """Measure predictors that ignore the rule, at the final position of strings of `length`.

    Each is fitted on `n` strings and scored on `n` others. Returns one {"baseline", "length",
    "value", "n"} each for `uniform` (a random class), `majority` (the commonest answer over all
    positions), `position` (the commonest at the final position) and `last_token` (the commonest
    there given the last token of the string; a query is none). Of a task with several answers, all
    that are scored count, `position` is the commonest at each, and fewer strings do where they are
    long. Where they are known exactly (`chance.py`) nothing is measured, and n is 0. Tasks of
    series have their own, measured once on the test split. Raises UserError for a length the task
    does not have.
    """
    known = known_baselines(task, length)
    return drawn_baselines(task, stream, length, n, device) if known is None else known


def drawn_baselines(
    task: SampledTask, stream: Stream, length: int, n: int, device: Device
) -> list[Baseline]:
    """Return what `measure_baselines` returns, measured even where it is known."""
    if task.averaged:
        return _of_several(task, stream, length, n, device)
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


def known_baselines(task: SampledTask, length: int) -> list[Baseline] | None:
    """Return what `measure_baselines` returns where nothing need be drawn for it, else None."""
    fixed = task.known_baselines(length)
    exact = exact_baselines(task, length) if fixed is None and task.valid_length(length) else None
    values, n = fixed or (exact, 0)
    if values is None:
        return None
    return [
        {"baseline": name, "length": length, "value": value, "n": n}
        for name, value in values.items()
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
    """Yield the last token that is read and the last answer of `n` strings.

    All answers are added to `counts`.
    """
    end = task.last_read(length) + 1
    for row in range(0, n, _ROWS):
        rows, read, last = min(_ROWS, n - row), 0, None
        for piece in task.segments(stream.from_row(row), rows, length, _SEGMENT, device):
            if counts is not None:
                scored = piece.targets[piece.targets != IGNORE]
                counts += torch.bincount(scored, minlength=len(counts))
            if read < end <= read + piece.tokens.shape[1]:
                last = piece.tokens[:, end - read - 1].tolist()
            read += piece.tokens.shape[1]
        assert last is not None
        yield from zip(last, piece.targets[:, -1].tolist(), strict=True)


def _of_several(
    task: SampledTask, stream: Stream, length: int, n: int, device: Device
) -> list[Baseline]:
    """Measure the same of a task with several answers a string, at all of them that are scored."""
    positions, classes = task.positions(length), task.num_classes
    n = max(1, min(n, _ANSWERS // positions))
    # how often each class is the answer, by position and by the last token of the string
    seen = torch.zeros(positions, len(task.vocabulary), classes, dtype=torch.int64, device=device)
    for _, _, place, last, answer in _answers(task, stream, length, n, device):
        seen.index_put_((place, last, answer), torch.ones_like(answer), accumulate=True)
    by_position = seen.sum(1)
    position = by_position.argmax(1)
    last_token = torch.where(seen.sum(2) > 0, seen.argmax(2), position[:, None])
    majority = by_position.sum(0).argmax()
    shares: dict[str, list[torch.Tensor]] = {}  # of each string, by predictor
    right, scored = dict.fromkeys(("uniform", "majority", "position", "last_token"), 0), 0
    for rows, string, place, last, answer in _answers(task, stream.from_row(n), length, n, device):
        of_each = torch.bincount(string, minlength=len(rows))
        guesses = stream.fold("guess").from_row(rows.start)
        drawn = integers(guesses, 0, len(rows), 0, len(answer) // len(rows) + 1, classes, device)
        predicted = {
            "uniform": drawn.flatten()[: len(answer)],
            "majority": majority,
            "position": position[place],
            "last_token": last_token[place, last],
        }
        for name, given in predicted.items():
            hits = (given == answer).double()
            right[name] += int(hits.sum())
            shares.setdefault(name, []).append(torch.bincount(string, hits) / of_each)
        scored += len(answer)
    return [
        {
            "baseline": name,
            "length": length,
            "value": count / scored,
            "n": n,
            "answers": _independent(count / scored, torch.cat(shares[name])),
        }
        for name, count in right.items()
    ]


def _independent(value: float, shares: torch.Tensor) -> float:
    """Return how many independent answers vary as much as the share that is right of a string."""
    variance = float(shares.var(unbiased=False))
    return round(max(1.0, value * (1 - value) / variance), 1) if variance > 0 else 1.0


def _answers(
    task: SampledTask, stream: Stream, length: int, n: int, device: Device
) -> Iterator[tuple[range, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Yield some rows of `n`; of each scored answer string, place, string's last token and class.

    Strings are counted from the first of these rows.
    """
    some = max(1, min(_ROWS, _POSITIONS // task.positions(length)))
    for row in range(0, n, some):
        rows = range(row, min(n, row + some))
        batch = task.sample(stream.from_row(row), 0, len(rows), length, device)
        string, place = batch.counted.nonzero(as_tuple=True)
        last, answer = batch.tokens[string, length - 1], batch.targets[string, place]
        yield rows, string, place, last, answer


def _by_last_token(fit: Ends, otherwise: int) -> Callable[[int], int]:
    """Return the commonest answer after each token of `fit`, `otherwise` for tokens not in it."""
    commonest: dict[int, int] = {}
    for (token, answer), _ in Counter(fit).most_common():
        commonest.setdefault(token, answer)
    return lambda token: commonest.get(token, otherwise)


def _accuracy(predicted: list[int], fresh: Ends) -> float:
    return sum(p == answer for p, (_, answer) in zip(predicted, fresh, strict=True)) / len(fresh)
