"""Options that the measurements share, and how their words are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.config import Config

Words = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", show_default=False)]
Models = Annotated[str, typer.Option(help="Models, comma-separated; default: all.")]
Rounds = Annotated[int, typer.Option(help="Rounds, each with a time for everything.")]
Seconds = Annotated[float, typer.Option(help="How long each is timed in a round.")]
Output = Annotated[Path | None, typer.Option(help="Write the raw numbers to this file, as JSON.")]


def chosen_mixers(models: str) -> list[str]:
    """Return the models named, or all mixers; UserError for a name that nothing has."""
    from lrbench.plugins import load_plugins
    from lrbench.registry import ENCODERS, MIXERS

    load_plugins()
    names = split(models) or MIXERS.names()
    for name in names:
        if name not in ENCODERS:
            MIXERS.get(name)
    return names


def split(text: str) -> list[str]:
    """Return the comma-separated words of `text`; UserError for one that is there twice."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(set(words)) < len(words):
        raise UserError(f"'{text}' names something twice", exit_code=2)
    return words


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the comma-separated positive numbers of an option; UserError for anything else."""
    words = split(text)
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UserError(f"--{option} must be numbers such as 40,500, not '{text}'", exit_code=2)
    return [int(word) for word in words]


def use_threads(config: Config) -> None:
    """Let torch use as many threads as a run of `config` would."""
    import torch

    torch.set_num_threads(config.threads)


def tell(line: str) -> None:
    """Say on stderr how far a measurement is."""
    from lrbench.console import messages

    messages().print(line, markup=False, highlight=False)
