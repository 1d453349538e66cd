"""Training strings of many lengths: which ones, and the batch that has them.

Lengths are a pure function of stream, step and row, as the strings are: a run that is resumed or
split sees the same ones.
"""

from __future__ import annotations

from dataclasses import replace

from lrbench.checks import one_of
from lrbench.tasks.base import Batch, Device, LabelledTask
from lrbench.tasks.stream import Stream, integers

MIXES = ("step", "row")

Span = tuple[int, int]  # shortest, longest


def drawn_lengths(
    task: LabelledTask, stream: Stream, step: int, rows: int, span: Span, mix: str
) -> list[int]:
    """Draw the lengths of an update's strings, uniform over `span`, both ends included.

    mix: "step", one length for all rows, or "row", one for each. A length that the task does not
    have becomes the nearest below. Raises ValueError for another mix and for a span that is none,
    UserError where there is no length below.
    """
    one_of("mix", mix, MIXES)
    low, high = span
    if not 1 <= low <= high:
        raise ValueError(f"lengths are drawn from [shortest, longest], not [{low}, {high}]")
    named = stream.fold("lengths")
    if mix == "step":  # the same for whoever draws some of the rows
        named = replace(named, first_row=0, rows=None)
    drawn = integers(named, step, rows if mix == "row" else 1, 0, 1, high - low + 1, "cpu")
    found = [task.nearest_length(low + one) for one in drawn[:, 0].tolist()]
    return found if mix == "row" else found * rows


def mixed_batch(
    task: LabelledTask,
    stream: Stream,
    step: int,
    rows: int,
    span: Span,
    mix: str,
    device: Device,
) -> Batch:
    """Draw an update's strings of the lengths that `drawn_lengths` gives.

    By row, strings end at places of their own in one batch: see `LabelledTask.of_lengths`.
    """
    lengths = drawn_lengths(task, stream, step, rows, span, mix)
    if mix == "step":
        return task.sample(stream, step, rows, lengths[0], device)
    return task.of_lengths(stream, step, lengths, device)
