"""`lrbench check`: the contract tests on one registered model or task, a user's own included.

Mixers, encoders and tasks have contracts of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError, unknown

if TYPE_CHECKING:
    from lrbench.contract import Finding

HELP = (
    "Check that a model or task keeps the contract that every command relies on.\n\n"
    "For a mixer (sequence layer): its modes agree with a loop over single steps, gradients"
    " included; a string can be cut anywhere; it is causal, finite and deterministic, on long"
    " strings and in training mode as well; each parameter has a gradient; its state has the stated"
    " size. Each check prints one line: ok, FAILED, or not applicable with the reason."
    " The exit code is 1 if any check failed.\n\n"
    "For an encoder: its vectors depend on their strings alone, its randomness comes from the run's"
    " generator, its gradients are derivatives, and it can memorise 64 strings.\n\n"
    "task=NAME checks a task of symbols instead (task.KEY=.. may follow): its answers against its"
    " oracle (a slow reference), pieces against whole strings, that strings depend on seed, step"
    " and row alone, its automaton, and the accuracy of guessing.\n\n"
    "Otherwise model=NAME is required; model.width=.. and model.mixer.KEY=.. (for an encoder"
    " model.encoder.KEY=..) may follow. A model of your own"
    " is a file: LRBENCH_PLUGINS=mine lrbench check model=mine, from the folder that holds mine.py."
    " With --all every registered model is checked, yours included, and a matrix of models and"
    " checks is printed."
)

MARKS = {"ok": "ok", "FAILED": "FAILED", "not applicable": "-"}

Arguments = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="Check every registered model.")]


@dataclass
class TaskRequest:
    """What of a task is checked: its settings alone, in the field `task` that is added."""


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(check)


def check(arguments: Arguments = None, everything: All = False) -> None:
    """Run every check on one model and print a line for each, or on all and print a matrix."""
    if everything and arguments:
        raise UserError(
            f"check --all takes no '{arguments[0]}': it checks every model as registered",
            exit_code=2,
        )
    if any(word.startswith("task=") for word in arguments or []):
        if not _check_task(list(arguments or [])):
            raise typer.Exit(1)
        return
    name, overrides = ("", []) if everything else _read(list(arguments or []))
    from lrbench.plugins import load_plugins
    from lrbench.registry import ENCODERS, MIXERS, OWN

    load_plugins()
    if not everything and name not in MIXERS and name not in ENCODERS:
        raise unknown("model", name, sorted([*MIXERS.names(), *ENCODERS.names()]), fix=OWN)

    import torch

    torch.set_num_threads(1)  # the checks are tiny: more threads only wait for each other
    if everything:
        good = [_check_all(MIXERS.names()), _check_all(ENCODERS.names())]
    else:
        good = [_check_one(name, overrides)]
    if not all(good):
        raise typer.Exit(1)


def _check_one(name: str, overrides: list[str]) -> bool:
    """Print a line for each check of one model, then the count; return whether none failed."""
    from lrbench.contract import run_contract

    findings = run_contract(name, overrides, _print_line)
    _print_traces(findings)
    print(_counted(name, findings))
    return all(finding.verdict != "FAILED" for finding in findings)


def _check_task(arguments: list[str]) -> bool:
    """Print a line for each check of one task, then the count; return whether none failed."""
    from lrbench.cli.commands.look.show import pairs, requested
    from lrbench.plugins import load_plugins
    from lrbench.registry import TASKS

    values = pairs(arguments)
    if other := next((key for key in values if key.partition(".")[0] != "task"), ""):
        raise UserError(
            f"check task=NAME cannot use '{other}'\nwrite task=NAME and task.KEY=VALUE",
            exit_code=2,
        )
    load_plugins()
    entry = TASKS.get(values.pop("task"))
    request = requested(entry, values, TaskRequest)

    from lrbench.contract.tasks import run_task_contract

    findings = run_task_contract(request.task, _print_line)
    _print_traces(findings)
    print(_counted(entry.name, findings))
    return all(finding.verdict != "FAILED" for finding in findings)


def _check_all(names: Iterable[str]) -> bool:
    """Print a matrix, models down and checks across; what failed is told on stderr at once."""
    from lrbench.contract import run_contract
    from lrbench.registry import FOREIGN

    def tell(finding: Finding) -> None:
        if finding.verdict == "FAILED":
            print(finding, file=sys.stderr, flush=True)

    found = {}
    for name in names:
        if name == FOREIGN:
            print(
                f"{name}: checked with model.mixer.target=..., one layer at a time", file=sys.stderr
            )
            continue
        findings = run_contract(name, (), tell)
        print(_counted(name, findings), file=sys.stderr, flush=True)
        _print_traces(findings)
        found[name] = {finding.name: finding.verdict for finding in findings}
    for line in matrix(found):
        print(line)
    return all(verdict != "FAILED" for row in found.values() for verdict in row.values())


def matrix(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return {model: {check: verdict}} as a markdown table with a line for each model."""
    checks = list(dict.fromkeys(name for row in found.values() for name in row))
    rows = [["model", *checks], ["---"] * (len(checks) + 1)]
    for model, verdicts in found.items():
        rows.append([model, *(MARKS[verdicts.get(name, "not applicable")] for name in checks)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def _counted(name: str, findings: Iterable[Finding]) -> str:
    counts = dict.fromkeys(MARKS, 0)
    for finding in findings:
        counts[finding.verdict] += 1
    return f"{name}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())


def _read(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the model's name and the words that set something of it."""
    settings = dict(argument.partition("=")[::2] for argument in arguments)
    for argument in arguments:
        key, sign, _ = argument.partition("=")
        fits = key in ("model", "model.width") or key.startswith(("model.mixer.", "model.encoder."))
        if not (sign and fits):
            raise UserError(
                f"check cannot use '{argument}': it looks at one mixer or encoder by itself\n"
                "write model=NAME, model.width=NUMBER and model.mixer.KEY=VALUE"
                " (or model.encoder.KEY=VALUE)",
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
