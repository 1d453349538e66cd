"""`lrbench check`: the contract tests on one registered model, a user's own included."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError, unknown

if TYPE_CHECKING:
    from lrbench.contract import Finding

HELP = (
    "Check that a mixer keeps the contract every command relies on.\n\n"
    "Its modes agree with a loop over single steps, gradients included; it can be cut anywhere, is"
    " causal, finite and deterministic, and its state has the size it says. One line a check: ok,"
    " FAILED, or not applicable with the reason. The exit code is 1 if any check failed.\n\n"
    "model=NAME is required; model.width=.. and model.mixer.KEY=.. may follow. A model of your own"
    " is a file: LRBENCH_PLUGINS=mine lrbench check model=mine, from the folder that holds mine.py."
)

Words = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP)(check)


def check(words: Words = None) -> None:
    """Run every check on one model and print a line for each."""
    name, overrides = _read(list(words or []))
    from lrbench.plugins import load_plugins
    from lrbench.registry import MIXERS

    load_plugins()
    if name not in MIXERS:
        raise unknown("model", name, MIXERS.names())

    import torch

    from lrbench.contract import run_contract

    torch.set_num_threads(1)  # the checks are tiny: more threads only wait for each other
    findings = run_contract(name, overrides, _print_line)
    _print_traces(findings)
    counts = dict.fromkeys(("ok", "FAILED", "not applicable"), 0)
    for finding in findings:
        counts[finding.verdict] += 1
    print(f"{name}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    if counts["FAILED"]:
        raise typer.Exit(1)


def _read(words: list[str]) -> tuple[str, list[str]]:
    """Return the model's name and the words that set something of it."""
    settings = dict(word.partition("=")[::2] for word in words)
    for word in words:
        key, sign, _ = word.partition("=")
        fits = key in ("model", "model.width") or key.startswith("model.mixer.")
        if not (sign and fits):
            raise UserError(
                f"check cannot use '{word}': it looks at one mixer by itself\n"
                "write model=NAME, model.width=NUMBER and model.mixer.KEY=VALUE",
                exit_code=2,
            )
    if not settings.get("model"):
        raise UserError(
            "check needs a model: lrbench check model=blockdiag\n"
            "`lrbench models` lists them; LRBENCH_PLUGINS adds your own",
            exit_code=2,
        )
    return settings.pop("model"), [f"{key}={value}" for key, value in settings.items()]


def _print_line(finding: Finding) -> None:
    print(finding, flush=True)


def _print_traces(findings: Iterable[Finding]) -> None:
    """Show the mixer's author where its code raised, once for each place."""
    shown = set()
    for finding in findings:
        frames = finding.trace.strip().splitlines()
        place = next((line for line in reversed(frames) if line.startswith("  File ")), "")
        if finding.trace and place not in shown:
            shown.add(place)
            print(f"\n{finding.name}:\n{finding.trace}", file=sys.stderr, end="")
