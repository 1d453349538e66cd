"""The command line: one file a command. Nothing here imports torch before it is needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperGroup

from lrbench.cli.commands.extend import bench, check, data, doctor
from lrbench.cli.commands.look import certify, diagnose, listing, report, show, status
from lrbench.cli.commands.run import evaluate, sweep, train, tune
from lrbench.cli.commands.share import bundle, enter, export, publish, verify
from lrbench.version import __version__

# the help's panels, and the commands of each in the order that they are used
PANELS = {
    "Run": (train, sweep, tune, evaluate),
    "Look": (report, status, show, listing, certify, diagnose),
    "Share": (publish, bundle, enter, verify, export),
    "Extend": (check, bench, data, doctor),
}


class Commands(TyperGroup):
    """The commands; of words that may be repeated the help says `...`, not their Python type."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called `cmd_name`."""
        command = super().get_command(ctx, cmd_name)
        for argument in getattr(command, "params", ()):
            if isinstance(argument, TyperArgument) and argument.nargs == -1:
                vars(argument)["display_type_rich"] = lambda ctx: "..."
        return command


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lrbench {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="lrbench",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Length-extrapolation benchmarks: did it learn the rule, or did it learn length 40?",
    epilog="Start with: lrbench train task=sum model=blockdiag",
)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options before a command; Typer calls what they ask for."""


for _panel, _modules in PANELS.items():
    for _module in _modules:
        _module.add_to(app, _panel)


def main() -> None:
    """Run the command line (the `lrbench` script)."""
    from lrbench.cli.guard import guarded

    guarded(app)


__all__ = ["app", "main"]
