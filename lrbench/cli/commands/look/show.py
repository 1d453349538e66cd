"""`lrbench show`: a few strings of a task with their answers, as a person would write them.

Or, with --tree, how a trained tree encoder reads a string.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrbench.checks import at_least, between, nearest, shown
from lrbench.cli.completion import complete_show, typed
from lrbench.cli.given import refuse
from lrbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from lrbench.registry import Entry
    from lrbench.runs.evaluate.parses import Parse, TreeReader
    from lrbench.tasks.base import Batch, LabelledTask
    from lrbench.tasks.corpus.strings import Strings

HELP = (
    "Print a few strings of a task, each with its answers below.\n\n"
    "A symbol without an answer below it has no question; an answer in brackets is not scored.\n\n"
    "For example: lrbench show task=mod_arith length=11 count=2 task.modulus=7\n\n"
    "Of a corpus: lrbench show task=listops split=dev count=2 first=10\n\n"
    'How a trained tree encoder reads a string: lrbench show --tree RUN "[MAX 5 [SM 3 9 ] 2 ]"'
    "\n\n"
    "Or twenty of a split, one below the other: lrbench show --tree RUN split=near_iid count=20"
)

Arguments = Annotated[
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
DRAWN = 60  # symbols of a string whose tree is drawn, too
LIMITS = {"length": 1000, "count": 100, "seed": 2**63 - 1}  # for reading; the oracle is quadratic


@dataclass
class ShowRequest:
    """What to show; the field `task`, added for the task that was named, has its settings."""

    length: int | None = None
    count: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for key, limit in LIMITS.items():
            low, value = int(key != "seed"), getattr(self, key)
            if isinstance(value, int) and not low <= value <= limit:
                raise ValueError(f"{key} must be from {low} to {limit}, not {value}")


@dataclass
class SplitRequest:
    """What to show of a corpus: `count` rows of a split, from row `first` on."""

    split: str = "train"
    count: int = 3
    first: int = 1

    def __post_init__(self) -> None:
        between("count", self.count, 1, LIMITS["count"])
        at_least("first", self.first, 1)


def pairs(arguments: Sequence[str]) -> dict[str, str]:
    """Return KEY=VALUE words as a dict, the last of equal keys; UserError for another word."""
    for argument in arguments:
        if not argument.partition("=")[0] or "=" not in argument:
            raise UserError(
                f"cannot read '{argument}'\nwrite KEY=VALUE, such as task=sum length=12"
            )
    return dict(argument.split("=", 1) for argument in arguments)


def requested(entry: Entry, values: dict[str, str], settings: type) -> Any:
    """Return the checked ShowRequest or SplitRequest of `values`, texts as typed, for one task.

    Raises UserError for an unknown key, a wrong type or a value out of range.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own = [f"task.{one.name}" for one in fields(entry.config) if one.name != "name"]
    known = ["task", *(one.name for one in fields(settings)), *own]
    schema: Any = make_dataclass(
        "ShowRequest",
        [("task", entry.config, field(default_factory=entry.config))],
        bases=(settings,),
    )
    node = OmegaConf.structured(schema)
    for key, value in values.items():
        if key not in known:
            raise UserError(
                f"there is no setting '{key}'.{nearest(key, known)}\nthere are: {', '.join(known)}"
            )
        _set(node, key, value)
    try:
        return OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        raise UserError(str(error).partition("\n")[0]) from error
    except ValueError as error:
        raise UserError(str(error)) from error


def _set(node: Any, key: str, value: str) -> None:
    """Set one value in `node`, read as `lrbench train` reads it; UserError for another type."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        override = OverridesParser.create().parse_override(f"{key}={value}")
        OmegaConf.update(node, key, override.value())
    except (OmegaConfBaseException, HydraException, ValueError) as error:
        types = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
        wanted = next((types[name] for name in types if f"converted to {name}" in str(error)), "")
        wanted = f"\nit must be {wanted}" if wanted else ""
        raise UserError(f"{key} cannot be '{shown(value)}'{wanted}") from error


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(show)


def show(
    ctx: typer.Context,
    arguments: Arguments = None,
    tree: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A run's folder: print the trees it reads strings by."),
    ] = None,
    which: Annotated[str, typer.Option(help="The rule of the checkpoint: best or last.")] = "best",
) -> None:
    """Print strings and answers, or the tree of a string."""
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.registry import TASKS
    from lrbench.report.output.display import say
    from lrbench.tasks import make_task

    load_plugins()
    if tree is not None:
        show_trees(tree, arguments or [], which)
        return
    refuse(ctx, ["which"], "--tree RUN")
    values = pairs(arguments or [])
    entry = TASKS.get(values.pop("task", "sum"))
    if getattr(entry.cls, "one_answer", False):
        show_corpus(entry, values)
        return
    request = requested(entry, values, ShowRequest)
    task: LabelledTask = make_task(request.task)
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
    rows = _rows(task.name, there, request)
    for row in rows:
        sides = [there.row(row, side).tolist() for side in range(there.sides)]
        if (answer := task.answer(*sides)) not in (None, there.labels[row]):
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


def _rows(name: str, there: Strings, request: Any) -> range:
    """Return the rows of a split that are asked for; UserError where there are none."""
    rows = range(request.first - 1, min(len(there), request.first - 1 + request.count))
    if not rows:
        raise UserError(f"split {request.split} of {name} has {len(there):,} rows")
    return rows


def strings(task: LabelledTask, length: int, request: ShowRequest) -> Batch:
    """Draw the strings; UserError for a length the task does not have."""
    from lrbench.tasks.stream import Stream

    named = (request.seed, "show", length)
    stream = task.stream(*named) if task.features else Stream.named(*named)
    count = min(request.count, task.available(stream) or request.count)
    return task.sample(stream, 0, count, length, "cpu")


def written(task: LabelledTask, batch: Batch) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each string's symbols and the oracle's answers, '' where nothing is asked.

    Answers that are not scored stand in brackets. Of a signal, its numbers and the answers that
    come with it. Raises UserError where the oracle and the answers that models are trained on
    disagree.
    """
    from lrbench.tasks.base import IGNORE

    if task.features:
        yield from _numbers(task, batch)
        return
    letters, classes = task.spelled()
    rows = (part.tolist() for part in (batch.tokens, batch.targets, batch.counted))
    for tokens, targets, scored in zip(*rows, strict=True):
        answers = list(task.oracle(tokens))
        if answers != targets:
            raise UserError(
                f"task {task.name} contradicts itself on {task.describe_string(tokens)}\n"
                f"its oracle says {answers}\nits answers are {targets}\n"
                "one of the two is wrong: train nothing on it"
            )
        symbols = [letters[token] for token in tokens]
        names = ["" if one == IGNORE else classes[one] for one in answers]
        yield symbols, [n if s or not n else f"({n})" for n, s in zip(names, scored, strict=True)]


def _numbers(task: LabelledTask, batch: Batch) -> Iterator[tuple[list[str], list[str]]]:
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


def show_trees(folder: Path, arguments: Sequence[str], which: str) -> None:
    """Print how a run's encoder reads each string that was typed, or those of a split."""
    from lrbench.console import results
    from lrbench.report.output.display import say
    from lrbench.runs.evaluate.parses import tree_reader

    if not arguments:
        raise UserError(
            'which string? name one, or a split of the task\nlrbench show --tree RUN "[MAX 5 [SM 3'
            ' 9 ] 2 ]"\nlrbench show --tree RUN split=near_iid count=20'
        )
    reader, console = tree_reader(folder, which), results()
    of_split = all(RANGE.match(argument) for argument in arguments)
    head = f"{reader.task.name} · {reader.name} · seed {reader.seed}, update {reader.step:,}"
    rows = _rows_of(reader, arguments) if of_split else list(map(reader.tokens, arguments))
    parses = [reader.parse(tokens) for tokens in rows]
    say(console, head, "bold")
    for parse in parses:
        if len(parses) > 1:
            console.print()
        _show_tree(parse, console, drawn=not of_split)
    if of_split:
        _sum_up(parses, console)


RANGE = re.compile(r"(split|count|first)=")


def _rows_of(reader: TreeReader, arguments: Sequence[str]) -> list[list[int]]:
    from lrbench.registry import TASKS

    entry = TASKS.get(reader.task.name)
    request = requested(entry, pairs(arguments), SplitRequest)
    there = reader.task.load(request.split)
    rows = _rows(entry.name, there, request)
    return [there.row(row, side).tolist() for row in rows for side in range(there.sides)]


def _show_tree(found: Parse, console: Console, drawn: bool) -> None:
    """Print a string's tree on one line, and as a drawing of what is merged."""
    from lrbench.report.output.display import say
    from lrbench.runs.evaluate.parses import bracketed

    say(console, " ".join(found.symbols), label="string  ")
    if found.answer is not None:
        say(console, f"{found.answer}, the model says {found.predicted}", label="answer  ")
    say(console, bracketed(found.tree, found.symbols), label="parse   ")
    if found.found.brackets:
        inside = f"{found.found.exact} of {found.found.brackets} brackets inside"
        say(console, inside, label="nodes   ")
    if drawn and len(found.symbols) <= DRAWN:
        console.print(drawing(found, console))


def _sum_up(parses: Sequence[Parse], console: Console) -> None:
    """Print how many strings have all their brackets, and how many answers are right."""
    from lrbench.report.output.display import say

    nested = [one.found for one in parses if one.found.brackets]
    whole = sum(one.exact == one.brackets for one in nested)
    console.print()
    if nested:
        inside, there = sum(one.exact for one in nested), sum(one.brackets for one in nested)
        say(
            console,
            f"every bracket is a node in {whole} of {len(nested)} strings that nest; {inside} of"
            f" {there} brackets are",
            "bold",
        )
    if asked := [one for one in parses if one.answer is not None]:
        right = sum(one.answer == one.predicted for one in asked)
        say(console, f"{right} of {len(asked)} answers are right", "bold")


def drawing(found: Parse, console: Console) -> Tree:
    """Return the tree with what each node spans beside it."""
    from rich.text import Text
    from rich.tree import Tree

    from lrbench.report.output.display import plain
    from lrbench.runs.evaluate.parses import spans

    drawings: list[Tree] = []  # the nodes from the root to the last one
    for depth, part in spans(found.tree):
        symbols = plain(console, " ".join(found.symbols[part.start : part.stop]))
        node = drawings[depth - 1].add(Text(symbols)) if depth else Tree(Text(symbols))
        drawings[depth:] = [node]
    return drawings[0]
