"""The command line: one file a command, imported when it is asked for; torch is later still."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_group

from lrbench.version import __version__

# the help's panels, and the commands of each in the order that they are used
PANELS = {
    "Run": ("train", "sweep", "tune", "evaluate"),
    "Look": (
        *("report", "status", "show", "tasks", "models", "protocols", "tables"),
        *("certify", "diagnose"),
    ),
    "Share": ("publish", "bundle", "enter", "verify", "export"),
    "Extend": ("check", "bench", "data", "doctor"),
}
FILES = dict.fromkeys(("tasks", "models", "protocols", "tables"), "listing")  # or as its command


class Registered(MutableMapping[str, Any]):
    """The commands by name, each made when it is first asked for.

    brief: make what a list of commands needs, name, help and panel, and read no settings.
    """

    def __init__(self, others: Mapping[str, Any] | None = None) -> None:
        self.brief = False
        self._made: dict[str, Any] = dict(others or {})
        self._panels = {name: panel for panel, names in PANELS.items() for name in names}

    @contextmanager
    def briefly(self) -> Iterator[None]:
        """Let commands be brief for a while."""
        self.brief = True
        try:
            yield
        finally:
            self.brief = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._panels:
                raise KeyError(name)
            app = self._app(name)
            if self.brief:
                return _briefly(app, name, self._panels[name])
            self._made |= get_group(app).commands
        return self._made[name]

    def _app(self, name: str) -> typer.Typer:
        """Return what the file of a command adds to a command line."""
        panel = self._panels[name]
        module = f"lrbench.cli.commands.{panel.lower()}.{FILES.get(name, name)}"
        app = typer.Typer()
        try:
            import_module(module).add_to(app, panel)
        except KeyError as error:  # which would read as: no such command
            raise RuntimeError(f"{module} cannot be imported") from error
        return app

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._panels, **self._made})

    def __len__(self) -> int:
        return len({**self._panels, **self._made})


def _briefly(app: typer.Typer, name: str, panel: str) -> TyperCommand:
    """Return a command that has a name, a help text and a panel, and does nothing."""
    texts = {name: app.info.help for name, app in _groups(app)}
    texts |= {
        getattr(made.callback, "__name__", None): made.help for made in app.registered_commands
    }
    return TyperCommand(name, help=str(texts[name]), rich_help_panel=panel)


def _groups(app: typer.Typer) -> list[tuple[str | None, typer.Typer]]:
    """Return the groups of commands of a command line, by name."""
    made = [(group.name, group.typer_instance) for group in app.registered_groups]
    return [(name, group) for name, group in made if group is not None]


class Commands(TyperGroup):
    """The commands; of words that may be repeated the help says `...`, not their Python type."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._registered = Registered(self.commands)  # and what was added to `app` from outside
        self.commands = self._registered

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of commands in the order of the help."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called `cmd_name`."""
        command = super().get_command(ctx, cmd_name)
        for argument in getattr(command, "params", ()):
            if isinstance(argument, TyperArgument) and argument.nargs == -1:
                vars(argument)["display_type_rich"] = lambda ctx: "..."
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the list of commands."""
        with self._registered.briefly():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands whose names go on from what was typed."""
        with self._registered.briefly():
            return super().shell_complete(ctx, incomplete)


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


def main() -> None:
    """Run the command line (the `lrbench` script)."""
    from lrbench.cli.guard import guarded

    # By `python -m` too: a shell completes the command of this name, and no word with spaces.
    guarded(lambda: app(prog_name="lrbench"))


__all__ = ["app", "main"]
