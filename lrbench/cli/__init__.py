"""The command line: one file a command. Nothing here imports torch before it is needed."""

from __future__ import annotations

import typer

from lrbench.cli.commands import (
    bench,
    bundle,
    certify,
    check,
    data,
    diagnose,
    doctor,
    evaluate,
    listing,
    publish,
    report,
    show,
    sweep,
    train,
    tune,
    verify,
)

app = typer.Typer(
    name="lrbench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Length-extrapolation benchmarks: did it learn the rule, or did it learn length 40?",
    epilog="Start with: lrbench train task=sum model=blockdiag",
)
train.add_to(app)
sweep.add_to(app)
tune.add_to(app)
evaluate.add_to(app)
certify.add_to(app)
diagnose.add_to(app)
report.add_to(app)
publish.add_to(app)
bundle.add_to(app)
verify.add_to(app)
show.add_to(app)
listing.add_to(app)
check.add_to(app)
bench.add_to(app)
data.add_to(app)
doctor.add_to(app)


def main() -> None:
    """Run the command line (the `lrbench` script)."""
    from lrbench.cli.guard import guarded

    guarded(app)


__all__ = ["app", "main"]
