"""`lrbench data`: getting the data that tasks do not make themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lrbench.errors import unknown

HELP = "Get the data that tasks read from files."
FETCH_HELP = (
    "Download the files of a task and check their sha256; what is there already stays.\n\n"
    "They go to data/ of the current folder, or of LRBENCH_DATA.\n\n"
    "For example: lrbench data fetch psmnist"
)
SETS = ("psmnist",)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Which task's: psmnist.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True)
    group.callback()(_group)
    group.command(help=FETCH_HELP)(fetch)
    app.add_typer(group, name="data")


def _group() -> None:
    """Without this a group of one command would be that command."""


def fetch(
    name: Name,
    mirror: Annotated[
        str, typer.Option(metavar="URL", help="Where the files are, instead of known mirrors.")
    ] = "",
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put them, instead of data/mnist.")
    ] = None,
) -> None:
    """Download what a task needs."""
    from lrbench.console import messages, results
    from lrbench.downloads import fetch as get
    from lrbench.locations import data_dir
    from lrbench.mnist_files import FILES, FOLDER, MIRRORS
    from lrbench.report.display import say

    if name not in SETS:
        raise unknown("data", name, SETS, exit_code=2)
    target = folder or data_dir() / FOLDER

    def tell(text: str) -> None:
        messages().print(text, markup=False, soft_wrap=True)

    mirrors = [mirror] if mirror else MIRRORS
    new = sum(get(file, target, mirrors, tell) for file in FILES)
    say(results(), f"{target}: {len(FILES)} files, {new} new, each with its sha256")
