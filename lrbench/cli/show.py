"""`lrbench show`: a few strings of a task with their answers, as a person would write them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrbench.cli.complete import complete_show
from lrbench.cli.declarations import typed
from lrbench.cli.show_request import Request, SplitRequest, pairs, requested
from lrbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from lrbench.registry import Entry
    from lrbench.tasks.base import Batch, Task

HELP = (
    "Print a few strings of a task, each with its answers below.\n\n"
    "Nothing stands below a symbol where nothing is asked.\n\n"
    "For example: lrbench show task=mod_arith length=11 count=2 task.modulus=7\n\n"
    "Of a corpus: lrbench show task=listops split=dev count=2 first=10\n\n"
    'How a trained tree encoder reads a string: lrbench show --tree RUN "[MAX 5 [SM 3 9 ] 2 ]"'
)

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="task, length, count, seed, and the task's own such as task.modulus.",
        show_default=False,
        autocompletion=complete_show,
    ),
]

LENGTH = 12  # where none is asked for
LABELS = ("string", "answer")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP)(show)


def show(
    words: Words = None,
    tree: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A run's folder: print the trees it reads strings by."),
    ] = None,
    which: Annotated[str, typer.Option(help="Whose checkpoint: best or last.")] = "best",
) -> None:
    """Print strings and answers, or the tree of a string."""
    from lrbench.cli.trees import show_tree
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.registry import TASKS
    from lrbench.report.output.display import say

    load_plugins()
    if tree is not None:
        for text in words or []:
            show_tree(tree, text, which)
        if not words:
            raise UserError('which string?\nlrbench show --tree RUN "[MAX 5 [SM 3 9 ] 2 ]"')
        return
    values = pairs(words or [])
    entry = TASKS.get(values.pop("task", "sum"))
    if hasattr(entry.cls, "sides"):
        show_corpus(entry, values)
        return
    request = requested(entry, values, Request)
    task: Task = entry.cls(request.task)
    length = request.length or task.nearest_length(LENGTH)
    shown = list(written(task, strings(task, length, request)))  # a mistake shows before any line
    console = results()
    _header(entry, request, length, console)
    for symbols, answers in shown:
        console.print()
        for line in aligned(symbols, answers, console.width):
            say(console, line)


def show_corpus(entry: Entry, values: dict[str, str]) -> None:
    """Print strings, or pairs of them, of a split with their answers."""
    from lrbench.console import results
    from lrbench.report.output.display import say

    request = requested(entry, values, SplitRequest)
    task = entry.cls(request.task)
    there = task.load(request.split)
    rows = range(request.first - 1, min(len(there), request.first - 1 + request.count))
    if not rows:
        raise UserError(f"split {request.split} of {task.name} has {len(there):,} rows")
    for row in rows:
        sides = [there.row(row, side).tolist() for side in range(there.sides)]
        if (answer := task.answer(*sides)) != there.labels[row]:
            raise UserError(
                f"row {row + 1:,} of split {request.split} says {there.labels[row]}, the oracle"
                f" {answer}\none of the two is wrong: train nothing on it"
            )
    console = results()
    say(console, f"{task.name} · split {request.split}, {len(there):,} rows", "bold")
    say(console, entry.source)
    for row in rows:
        console.print()
        for side in range(there.sides):
            say(console, there.text(row, side), label=f"{'string' if not side else '':<8}")
        say(console, task.class_names[there.labels[row]], label=f"{'answer':<8}")


def strings(task: Task, length: int, request: Request) -> Batch:
    """Draw the strings; UserError for a length the task does not have."""
    from lrbench.tasks.stream import Stream

    named = (request.seed, "show", length)
    stream = task.stream(*named) if task.features else Stream.named(*named)
    count = min(request.count, task.available(stream) or request.count)
    return task.sample(stream, 0, count, length, "cpu")


def written(task: Task, batch: Batch) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each string's symbols and the oracle's answers, '' where nothing is asked.

    Of a signal, its numbers and the answers that come with it. Raises UserError where the oracle
    and the answers that models are trained on disagree.
    """
    from lrbench.tasks.base import IGNORE

    if task.features:
        yield from _numbers(task, batch)
        return
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        answers = list(task.oracle(tokens))
        if answers != targets:
            raise UserError(
                f"task {task.name} contradicts itself on {task.describe_string(tokens)}\n"
                f"its oracle says {answers}\nits _answer says {targets}\n"
                "one of the two is wrong: train nothing on it"
            )
        symbols = [task.vocabulary[token] for token in tokens]
        yield symbols, ["" if one == IGNORE else task.class_names[one] for one in answers]


def _numbers(task: Task, batch: Batch) -> Iterator[tuple[list[str], list[str]]]:
    from lrbench.tasks.base import IGNORE

    for inputs, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        symbols = [",".join(f"{value:.3f}" for value in values) for values in inputs]
        if task.metric.counts:
            yield symbols, ["" if one == IGNORE else task.class_names[one] for one in targets]
        else:
            yield symbols, [f"{one:.3f}" for one in targets]


def aligned(symbols: Sequence[str], answers: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines of at most `width` characters: symbols, and below each its answer."""
    cell = max(map(len, (*symbols, *answers)))
    margin = max(map(len, LABELS)) + 2
    fit = max(1, (width - margin + 1) // (cell + 1))
    for start in range(0, len(symbols), fit):
        if start:
            yield ""
        for label, row in zip(LABELS, (symbols, answers), strict=True):
            texts = (text.rjust(cell) for text in row[start : start + fit])
            yield f"{label if not start else '':<{margin}}{' '.join(texts)}".rstrip()


def _header(entry: Entry, request: Any, length: int, console: Console) -> None:
    """Print what the task is, from where, and the settings as they are typed."""
    from lrbench.report.output.display import say

    about = " ".join((entry.cls.__doc__ or "").strip().partition("\n\n")[0].split())
    for text in dict.fromkeys([f"{entry.name}: {entry.source}", about]):
        for line in textwrap.wrap(text, console.width):
            say(console, line)
    settings = {key: value for key, value in vars(request.task).items() if key != "name"}
    own = [f"task.{key}={typed(value)}" for key, value in settings.items()]
    rest = [f"length={length}", f"count={request.count}", f"seed={request.seed}"]
    say(console, " ".join([f"task={entry.name}", *own, *rest]))
