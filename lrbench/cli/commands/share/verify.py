"""`lrbench verify BUNDLE`: the check of a bundle against its own statements."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.checks import shown
from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.bundles.check.rescore import ScoreComparison
    from lrbench.bundles.check.verify import BundleFinding, Opened

HELP = (
    "Check a bundle: hashes, data, table and chance, and its checkpoints scored again.\n\n"
    "Checkpoints are scored on fresh strings. Those of runs over a corpus are scored on their own"
    " splits, if this machine has the same data. The table is rebuilt from the bundle's"
    " results. By chance a score of one true bundle in a hundred differs; if so, try another"
    " --seed.\n\n"
    "Nothing in it is executed, unless --trust-plugins is given. The exit code is 0 if"
    " nothing differs and every run was scored, else 1. Lines that say 'not checked' name what"
    " nobody looked at, such as looks and times.\n\n"
    "For example: lrbench verify table2.zip --strings 10000"
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(verify)


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A .zip or .tar.gz.")],
    strings: Annotated[
        int,
        typer.Option(
            help="Fresh strings for each run and length; lengths inside a range share them."
        ),
    ] = 1000,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the fresh strings; default: drawn, so nobody knows it before."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    trust_plugins: Annotated[
        bool,
        typer.Option("--trust-plugins", help="Run the plugins' code that is in the bundle."),
    ] = False,
) -> None:
    """Verify a bundle."""
    if strings < 1:
        raise UserError(f"--strings must be at least 1, not {strings}", exit_code=2)
    from lrbench.bundles.check import verify as bundles
    from lrbench.bundles.check.verify import BAD
    from lrbench.plugins import load_plugins

    opened = bundles.open_bundle(bundle)
    load_plugins()
    drawn = secrets.randbelow(2**31) if seed is None else seed
    options = bundles.Options(strings, drawn, device, trust_plugins)
    findings, comparisons = bundles.verify(opened, options)
    _show(bundle, opened, findings, comparisons)
    if any(not one.split for one in comparisons):
        typer.echo(f"fresh strings: --seed {drawn} draws the same again")
    unscored = {finding.what for finding in findings} & set(opened.results)
    if unscored or any(finding.status == BAD for finding in findings):
        raise typer.Exit(1)


def _same_strings(one: ScoreComparison, differs: bool) -> str:
    return (
        f"  {shown(one.run)} {shown(one.place)}: stated {one.recorded:.4f} of {one.recorded_n:,},"
        f" now {one.now:.4f} of the same {one.now_n:,}: {'differs' if differs else 'confirmed'}"
    )


def _show(
    path: Path, opened: Opened, findings: list[BundleFinding], comparisons: list[ScoreComparison]
) -> None:
    """Print what was found: the bundle, the scores side by side, a line for each check."""
    from lrbench.bundles.archive import sha256
    from lrbench.bundles.check.rescore import differing
    from lrbench.bundles.check.stated import not_compared
    from lrbench.bundles.check.verify import OPEN
    from lrbench.report.output.display import plural

    versions = opened.manifest.get("versions")
    made_by = versions.get("lrbench") if isinstance(versions, dict) else None
    choice = opened.choice
    typer.echo(f"{path}  sha256 {sha256(path.read_bytes())}")
    typer.echo(
        shown(
            f"{choice.name}, rule {choice.rule}, {plural(len(opened.results), 'run')},"
            f" made by lrbench {made_by}",
            200,
        )
    )
    far = differing(comparisons) if comparisons else []
    for one in comparisons:
        if one.split:
            typer.echo(_same_strings(one, one in far))
            continue
        verdict = "differs" if one in far else "within sampling error"
        ends = f" [{one.interval[0]:.4f}, {one.interval[1]:.4f}]" if one.interval else ""
        typer.echo(
            f"  {shown(one.run)} at {one.length}: stated {one.recorded:.4f} of {one.recorded_n:,},"
            f" now {one.now:.4f}{ends} of {one.now_n:,}: {verdict}"
            f" (p = {one.p:.2g})"
        )
    for finding in findings:
        typer.echo(f"{finding.status:<12} {shown(finding.what)}: {shown(finding.text, 400)}")
    besides = ", ".join(not_compared(opened.results.values(), choice.rule))
    typer.echo(f"{OPEN:<12} told besides: {besides}")
