"""The table of `lrbench tune`: the values tried, their scores, the chosen one, the budget."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from lrbench.metrics import ACCURACY, Metric
from lrbench.records import Result
from lrbench.report.output.display import columns_table, say
from lrbench.sweeps.tune.choice import Point, score_of
from lrbench.sweeps.tune.study import Study

NOTE = (
    "accuracy and loss: mean over runs, on validation strings of the training length, at the look"
    " of lowest loss; a run that diverged or failed counts as accuracy 0; chosen: fewest of those,"
    " then lowest loss, then highest accuracy, then fewest updates. Nothing was chosen by the test"
    " length, and its numbers are not shown here."
)
CORPUS_NOTE = (
    "accuracy and loss: mean over runs, on the whole of {dev}, at the look of {best}; a run that"
    " diverged or failed counts as accuracy 0; chosen: fewest of those, then {order}, then fewest"
    " updates. Every run had its whole budget: protocol.patience was set so that it ends none."
    " Nothing was chosen by a test split, and their numbers are not shown here."
)
BY = {
    "loss": ("lowest loss", "lowest loss, then highest accuracy"),
    "accuracy": ("highest accuracy", "highest accuracy, then lowest loss"),
}
ERROR_NOTE = "NRMSE: an error, lower is better; a run that diverged or failed counts as infinite."


@dataclass(frozen=True)
class PointRow:
    """One point as text; `runs` tells how many of its runs have a score."""

    values: tuple[tuple[str, str], ...]
    accuracy: str
    loss: str
    step: str
    runs: str
    status: str

    @property
    def settings(self) -> str:
        """The values as they are typed."""
        return " ".join(f"{key}={value}" for key, value in self.values)


def row_of(point: Point, metric: Metric = ACCURACY) -> PointRow:
    """Return a point in words and digits. The loss is that of the runs that have one."""
    value = point.accuracy if point.scores else metric.worst
    scores, every = point.scores, len(point.attempts)
    ended = Counter(attempt.status for attempt in point.attempts)
    return PointRow(
        values=tuple((key, typed(value)) for key, value in point.values),
        accuracy=f"{value:.4f}",
        loss=f"{math.fsum(score.loss for score in scores) / len(scores):.4g}" if scores else "-",
        step=f"{math.fsum(s.step for s in scores) / len(scores):,.0f}" if scores else "-",
        runs=f"{len(scores)} of {every}" if len(scores) < every else str(every),
        status=", ".join(
            status if count == every else f"{count} {status}" for status, count in ended.items()
        ),
    )


def typed(value: Any) -> str:
    """Return a value of a setting as a person types it: 0.0001, null, [1,2]."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def study_table(console: Console, study: Study, points: Sequence[Point], best: int | None) -> None:
    """Print the points of one protocol, task and model, the winner marked, and its budget."""
    metric = next((point.metric for point in points if point.scores), ACCURACY)
    rows = [row_of(point, metric) for point in points]
    say(console, f"{study.task} · {study.model} · {study.protocol}", style="bold")
    marks = ["chosen" if index == best else "" for index in range(len(rows))]
    columns = {
        **{
            key: [dict(row.values)[key] for row in rows]
            for key in dict.fromkeys(key for row in rows for key, _ in row.values)
        },
        metric.title: [row.accuracy for row in rows],
        "loss": [row.loss for row in rows],
        "at update": [row.step for row in rows],
        "runs": [row.runs for row in rows],
        "status": [row.status for row in rows],
        "": marks,
    }
    columns_table(console, columns, bold_row=-1 if best is None else best)
    say(console, f"budget: {study.budget()}")
    if not metric.counts:
        say(console, ERROR_NOTE)


def note(study: Study) -> str:
    """Return what the numbers of a study are, and how one is chosen."""
    if not study.over_corpus:
        return NOTE
    protocol = study.config().protocol
    best, order = BY[protocol.select_by]
    return CORPUS_NOTE.format(dev=f"the dev split ({protocol.dev_split})", best=best, order=order)


def validation(result: Result) -> str:
    """Return 'validation 0.998' for the line of a run that ended."""
    score = score_of(result)
    if score is None:
        return ""
    named = "" if score.metric.counts else f"{score.metric.title} "
    return f"validation {named}{score.accuracy:.3f}"
