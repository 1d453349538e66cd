"""Options that mean nothing on a command line: refused, where they would be ignored."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from lrbench.errors import UserError


def refuse(ctx: typer.Context, options: Iterable[str], belonging: str) -> None:
    """Raise UserError, exit code 2, where any of `options` was typed; `belonging`: to what."""
    names = [f"--{name}" for name in options if _typed(ctx, name)]
    if names:
        *others, last = names
        told = f"{', '.join(others)} and {last} go" if others else f"{last} goes"
        raise UserError(f"{told} with {belonging}", exit_code=2)


def _typed(ctx: typer.Context, option: str) -> bool:
    source = ctx.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"
