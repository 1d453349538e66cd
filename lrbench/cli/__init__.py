"""The command line: one file a command. Nothing here imports torch before it is needed."""

from __future__ import annotations

import typer

from lrbench.cli.commands.extend import bench, check, data, doctor
from lrbench.cli.commands.look import certify, diagnose, listing, report, show
from lrbench.cli.commands.run import evaluate, sweep, train, tune
from lrbench.cli.commands.share import bundle, publish, verify

# the help's panels, and the commands of each in the order that they are used
PANELS = {
    "Run": (train, sweep, tune, evaluate),
    "Look": (report, show, listing, certify, diagnose),
    "Share": (publish, bundle, verify),
    "Extend": (check, bench, data, doctor),
}

app = typer.Typer(
    name="lrbench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Length-extrapolation benchmarks: did it learn the rule, or did it learn length 40?",
    epilog="Start with: lrbench train task=sum model=blockdiag",
)
for _panel, _modules in PANELS.items():
    for _module in _modules:
        _module.add_to(app, _panel)


def main() -> None:
    """Run the command line (the `lrbench` script)."""
    from lrbench.cli.guard import guarded

    guarded(app)


__all__ = ["app", "main"]
