"""`lrbench data`: making, getting and writing out the data that tasks read from files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError, unknown
from lrbench.locations import GIVEN

if TYPE_CHECKING:
    from lrbench.tasks.corpus.recipe import Progress, Recipe

HELP = "Make, get or write out the data that tasks read from files."
FETCH_HELP = (
    "Download the files of a task and check their sha256; what is there already stays.\n\n"
    "They go to data/ of the current folder, or of LRBENCH_DATA. A transfer that broke off is"
    " continued by the same command. Of lra_text and lra_retrieval nothing is downloaded: their"
    " splits are made of files that you have put there.\n\n"
    "For example: lrbench data fetch psmnist"
)
MAKE_HELP = (
    "Generate the splits of a corpus; what is there already, made the same way, stays.\n\n"
    "They go to NAME/ in data/ of the current folder, or of LRBENCH_DATA.\n\n"
    "For example: lrbench data make listops --splits train,dev,near_iid"
)
EXPORT_HELP = (
    "Write splits as JSON lines, each with a file of its sha256.\n\n"
    "For example: lrbench data export listops --splits dev --output listops_text"
)
SETS = {  # where each has its FILES, MIRRORS and FOLDER
    "psmnist": "lrbench.tasks.series.mnist",
    "logic": "lrbench.tasks.logic.released",
    "listops_test": "lrbench.tasks.listops.released",
}
RECIPES = {  # where each corpus has its recipe
    "listops": "lrbench.tasks.listops.splits:RECIPE",
    "logic": "lrbench.tasks.logic.splits:MADE",
    "logic_released": "lrbench.tasks.logic.splits:RELEASED",
    "lra_text": "lrbench.tasks.lra.splits:TEXT",
    "lra_retrieval": "lrbench.tasks.lra.splits:RETRIEVAL",
}
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join((*SETS, *GIVEN))}.")]
Corpus = Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(RECIPES)}.")]


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True)
    group.command(help=MAKE_HELP)(make)
    group.command(help=FETCH_HELP)(fetch)
    group.command(help=EXPORT_HELP)(export)
    app.add_typer(group, name="data", rich_help_panel=panel)


def make(
    name: Corpus,
    splits: Annotated[
        str, typer.Option(metavar="A,B", help="Which splits, instead of all of them.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="What all random choices follow from.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Make again what is there already.")
    ] = False,
) -> None:
    """Generate a corpus."""
    from lrbench.console import results
    from lrbench.report.output.display import plural, say
    from lrbench.tasks.corpus.recipe import make as make_splits

    recipe = _recipe(name)
    wanted = recipe.stored(_names(splits) or recipe.splits)
    with _bar() as progress:
        new = make_splits(recipe, wanted, seed, force, progress, _tell)
    say(results(), f"{recipe.folder}: {plural(len(wanted), 'split')}, {len(new)} new")


def fetch(
    name: Name,
    mirror: Annotated[
        str, typer.Option(metavar="URL", help="Where the files are, instead of known mirrors.")
    ] = "",
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put them, or where they are.")
    ] = None,
) -> None:
    """Download what a task needs."""
    from lrbench.console import results
    from lrbench.locations import data_dir
    from lrbench.report.output.display import plural, say
    from lrbench.tasks.corpus.downloads import fetch as get

    if name in GIVEN:
        return _read_given(name, mirror, folder)
    if name not in SETS:
        raise unknown("data", name, (*SETS, *GIVEN), exit_code=2)
    known = import_module(SETS[name])
    target = folder or data_dir() / known.FOLDER
    mirrors = [mirror] if mirror else known.MIRRORS
    ends = list(accumulate(file.size for file in known.FILES))  # where each file's bytes end
    with _bar() as progress:

        def moved(end: int, left: int) -> None:
            progress(name, end - left, ends[-1])

        new = sum(
            get(file, target, mirrors, _tell, partial(moved, end))
            for file, end in zip(known.FILES, ends, strict=True)
        )
    files = plural(len(known.FILES), "file")
    say(results(), f"{target}: {files}, {new} new, each with its sha256")
    if name == "logic":
        _store_logic(target)


def _store_logic(folder: Path) -> None:
    """Make the splits of the released pairs, as `data make logic_released` would."""
    from lrbench.console import results
    from lrbench.report.output.display import say
    from lrbench.tasks.logic.splits import RELEASED, store_released

    with _bar() as progress:
        new = store_released(folder, progress, _tell)
    say(results(), f"{RELEASED.folder}: {len(RELEASED.splits)} splits, {len(new)} new")


def _read_given(name: str, mirror: str, folder: Path | None) -> None:
    """Make the splits of files that the user has put into a folder."""
    from lrbench.console import results
    from lrbench.report.output.display import say
    from lrbench.tasks.lra.splits import CORPORA

    corpus = CORPORA[name]
    if mirror:
        raise UserError(
            f"{name} is not downloaded, so --mirror has no use\n{corpus.where(folder)}", exit_code=2
        )
    with _bar() as progress:
        new = corpus.store(folder, progress, _tell)
    recipe = corpus.recipe(folder)
    say(results(), f"{recipe.folder}: {len(recipe.splits)} splits, {len(new)} new")


def export(
    name: Corpus,
    splits: Annotated[
        str, typer.Option(metavar="A,B", help="Which splits, instead of all that were made.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write, instead of NAME_text.")
    ] = None,
) -> None:
    """Write splits as text."""
    from lrbench.console import results
    from lrbench.report.output.display import plural, say
    from lrbench.tasks.corpus.recipe import load
    from lrbench.tasks.corpus.storage import export as write_text

    recipe = _recipe(name)
    wanted = _names(splits) or [s for s in recipe.splits if (recipe.folder / s).is_dir()]
    if not wanted:
        raise UserError(
            f"{name}: there are no splits in {recipe.folder}\n"
            f"make them with: lrbench data make {name}"
        )
    folder = output or Path(f"{name}_text")
    write_text([(split, load(recipe, split)) for split in wanted], folder)
    say(results(), f"{folder}: {plural(len(wanted), 'split')}, each with its sha256")


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise unknown("corpus", name, RECIPES, exit_code=2)
    recipe: Recipe = resolve_name(RECIPES[name])
    return recipe


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _tell(text: str) -> None:
    from lrbench.console import messages

    messages().print(text, markup=False, soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Progress]:
    """Show what is being made as bars on a terminal; elsewhere each finished split is a line."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from lrbench.console import interactive, messages

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bars = Bars(
        *columns,
        TimeRemainingColumn(),
        console=messages(),
        transient=True,
        disable=not interactive(),
    )
    rows = {}

    def progress(what: str, done: int, wanted: int) -> None:
        if what not in rows:
            rows[what] = bars.add_task(what, total=wanted)
        bars.update(rows[what], completed=done)

    with bars:
        yield progress
