"""`lrbench certify RUN`: the shortest string that a checkpoint gets wrong, or a proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.cli.given import refuse
from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.certificates.record import ProofRecord, SearchRecord, WitnessRecord
    from lrbench.runs.evaluate.certify import Certified

HELP = (
    "Find the shortest string that a run gets wrong, or prove that there is none.\n\n"
    "The search tries every string up to a length, prefixes followed by a repeated pattern, and the"
    " strings with the smallest margins (the right logit minus the largest other one). Accuracy on"
    " random strings cannot show a string that is drawn once in 2.4e8. If no wrong string is found,"
    " certify searches for a proof for every length (rnn, elman, gru, lstm, blockdiag).\n\n"
    "RUN is a run's folder, the one that holds result.json, of a task that is a finite automaton"
    " (sum, parity, mod_arith, group, dfa and others). The result is written to its"
    " certificates/ and counterexample.json (for a rule other than last: counterexample-RULE.json),"
    " never to result.json. A wrong string that was known before is kept if it is shorter.\n\n"
    "The exit code is 0 if there is a proof, 3 if a wrong string was found, and 1 if neither was"
    " found, which proves nothing, or after an error.\n\n"
    "A proof is a file that anybody can check, with numpy alone:"
    " lrbench certify --check RUN/certificates/last.json\n\n"
    "For example: lrbench certify outputs/sum/lstm/fan2024/0123456789ab/s0"
)
OF_A_SEARCH = ("which", "complete", "beam", "longest", "nodes", "foretell", "output", "device")
EXIT = {"certified": 0, "open": 1, "wrong": 3}


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(certify)


def certify(
    ctx: typer.Context,
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run's folder.")] = None,
    which: Annotated[
        str, typer.Option(help="The rule of the checkpoint: last, best, id or band.")
    ] = "last",
    complete: Annotated[
        float, typer.Option(help="Try every string, up to the length with this many strings.")
    ] = 2e6,
    beam: Annotated[
        int,
        typer.Option(
            help="Strings with the smallest margins that are kept for each state of the task; a"
            " task with fewer than six states keeps at least 600 in all."
        ),
    ] = 100,
    longest: Annotated[
        int,
        typer.Option(
            help="Length of the longest string. Of up to 20,000 prefixes with a pattern, the 2,000"
            " with the smallest margins continue beyond 64 symbols."
        ),
    ] = 1000,
    nodes: Annotated[
        int, typer.Option(help="Largest number of boxes of a proof; 0: seek no proof.")
    ] = 20_000,
    foretell: Annotated[
        int,
        typer.Option(help="Length up to which the accuracy of a linear recurrence is predicted."),
    ] = 2000,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here, not into the run's folder.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check a certificate, or a counterexample.json."),
    ] = None,
) -> None:
    """Certify a run."""
    if check is not None:
        refuse(ctx, OF_A_SEARCH, "a search, not with --check FILE, which checks what is in FILE")
        _check(check, run)
        return
    if run is None:
        raise UserError("name a run's folder, or a file with --check", exit_code=2)
    for name, value, least in (("--complete", complete, 0), ("--beam", beam, 0)):
        if not least <= value <= 1e9:
            raise UserError(f"{name} must be between {least} and 1e9, not {value}", exit_code=2)
    if not 1 <= longest <= 100_000:
        raise UserError(f"--longest must be between 1 and 100,000, not {longest}", exit_code=2)
    if not 0 <= nodes <= 1_000_000:
        raise UserError(f"--nodes must be between 0 and 1,000,000, not {nodes}", exit_code=2)
    if not 0 <= foretell <= 100_000:
        raise UserError(f"--foretell must be between 0 and 100,000, not {foretell}", exit_code=2)
    from lrbench.certificates.witness import SearchBudget
    from lrbench.plugins import load_plugins
    from lrbench.runs.evaluate.certify import certify_run

    budget = SearchBudget(complete=int(complete), beam=beam, longest=longest)
    load_plugins()
    found = certify_run(run, which, budget, device, output, nodes, foretell)
    _show(found, run)
    raise typer.Exit(EXIT[found.verdict])


def _check(file: Path, run: Path | None) -> None:
    """Check a proof with numpy alone, or put a wrong string to its run's weights."""
    from lrbench.console import results

    verdict_of_file = _stated_verdict(file)
    if verdict_of_file == "open":
        text, verdict = _nothing_to_check(file, run), "open"
    elif verdict_of_file not in ("wrong", "counterexample"):
        text, verdict = _checked_proof(file, run), "certified"
    else:
        from lrbench.plugins import load_plugins
        from lrbench.runs.evaluate.certify import recheck

        load_plugins()
        found = recheck(file, run)
        given = found.given or "nothing finite"
        verdict = "wrong" if found.confirmed else "open"
        text = (
            f"confirmed: {given} instead of {found.right} on its {found.length:,} symbols"
            if found.confirmed
            else f"not confirmed: {found.right} on its {found.length:,} symbols, which is right"
        )
    results().print(text, markup=False)
    raise typer.Exit(EXIT[verdict])


def _stated_verdict(file: Path) -> str:
    """What a file says that it is, a certificate by its verdict; what is in it is checked later."""
    try:
        if file.exists() and not file.is_file():  # a pipe would wait, a device never end
            raise UserError(f"'{file}' is no plain file")
        content = json.loads(file.read_text())
    except OSError as error:
        raise UserError(f"'{file}' cannot be read: {(error.strerror or '').lower()}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"'{file}' is not JSON, or cut short") from error
    if not isinstance(content, dict) or content.get("format") != "lrbench-certificate":
        return "counterexample"
    return str(content.get("verdict"))


def _nothing_to_check(file: Path, run: Path | None) -> str:
    """Say what a certificate of `open` is, once it is known to be of the run that is named."""
    if run is not None:
        from lrbench.plugins import load_plugins
        from lrbench.runs.evaluate.certify import of_these_weights

        load_plugins()
        of_these_weights(file, run)
    return (
        f"open: '{file}' says that neither a wrong string nor a proof was found,"
        " so it has nothing to check"
    )


def _checked_proof(file: Path, run: Path | None) -> str:
    """Check a proof and, where a run is named, that it is of that run's weights."""
    from lrbench.certificates import check

    try:
        found = check.check(file)
    except check.Refused as why:
        raise UserError(f"'{file}' is refused: {why}") from why
    if run is not None:
        from lrbench.runs.evaluate.certify import of_these_weights

        of_these_weights(file, run, found["automaton"])
    task = found["task"]["name"]
    if check.of_the_file(found) and run is None:
        task = f"the automaton in the file (said to be that of {task})"
    return "\n".join(
        [
            f"holds: right on every string of {task}, of any length, in float32",
            f"  {found['nodes']:,} boxes, least margin {found['margin']:.3g}"
            + (f"; these are the weights, and the task, of {run}" if run else ""),
            *check.about(found, compared=run is not None),
        ]
    )


def _show(found: Certified, run: Path) -> None:
    """Print what was found, and what random strings say beside it."""
    from lrbench.console import results
    from lrbench.runs.train.result import task_title

    record, console = found.record, results()
    witness = record["witness"]
    config = found.run.config
    title = f"{task_title(config.task)} · {config.model.name} · {record['which']} of {run}"
    console.print(f"{title}, update {found.run.step:,}", style="bold", markup=False)
    if witness is not None:
        lines = _wrong(found)
    elif found.verdict == "certified":
        proof = record["proof"]
        lines = [
            "certified: right on every string, of any length (float32, any order of summation)",
            f"  {proof['nodes']:,} boxes ({_nodes(proof, config.model.name)}),"
            f" least margin {proof['margin']:.3g}, found in {proof['seconds']:,.1f} s",
        ]
    else:
        lines = _open(found)
    if prediction := _prediction(found):
        lines.append(f"  predicted on random strings, if states are Gaussian: {prediction}")
    if random := _on_random_strings(run, record["which"]):
        lines.append(f"  on random strings: {random}")
    lines.append(f"written: {found.file}")
    for line in lines:
        console.print(line, markup=False)


def _nodes(proof: ProofRecord, model: str) -> str:
    """What strings of one box have in common."""
    if model == "blockdiag":
        return "exact states, each a point"
    if proof["within"] is not None:
        return f"the task's state, and where strings lead to within {proof['within']:g}"
    if proof["depth"] == 0:
        return "the task's state"
    last = "symbol" if proof["depth"] == 1 else f"{proof['depth']} symbols"
    return f"the task's state and the last {last}"


def _wrong(found: Certified) -> list[str]:
    from lrbench.runs.evaluate.ending import sentence

    searched, witness = found.record["searched"], found.record["witness"]
    assert witness is not None
    return [
        sentence(found.task, found.record),
        "; ".join([f"  found in {searched['seconds']:,.1f} s", *_all_right(searched)]),
        *_unconfirmed(searched),
        *_one_in(witness),
        *_out_of_time(searched),
    ]


def _one_in(witness: WitnessRecord) -> list[str]:
    """How rare a string is, if known: 125, 2.4e+08, and 10^309 beyond what a float holds."""
    value, digits = witness["one_in"], witness["one_in_log10"]
    if digits is None:
        return []
    if value is None:
        times = f"10^{digits:,.0f}"
    else:
        times = f"{value:,.0f}" if 10 <= value < 1e6 else f"{value:.2g}"
    return [f"  a random string of that length is this one once in {times}"]


def _unconfirmed(searched: SearchRecord) -> list[str]:
    if not searched["unconfirmed"]:
        return []
    return [
        f"  {searched['unconfirmed']:,} strings, from {searched['unconfirmed_from']:,} symbols on,"
        " are wrong symbol by symbol, but not when read as a whole"
    ]


def _out_of_time(searched: SearchRecord) -> list[str]:
    stopped = searched["out_of_time"]
    if not stopped:
        return []
    return [f"  stopped by its {searched['seconds_allowed']:g} s: {', '.join(stopped)}"]


def _tried(searched: SearchRecord) -> list[str]:
    """Say how far each of the three searches went, of those that tried any string."""
    from lrbench.certificates.witness import SETTLED
    from lrbench.report.output.display import plural

    parts = _all_right(searched)
    families, kept = searched["families"], searched["families_kept"]
    if searched["families_to"]:
        narrowest = f" (the {kept:,} narrowest beyond {SETTLED})" if kept < families else ""
        part = f"{families:,} prefixes with a repeated pattern to"
        parts.append(f"{part} {plural(searched['families_to'], 'symbol')}{narrowest}")
    if searched["beam_to"]:
        part = f"the {searched['beam_kept']:,} most narrowly answered of each state to"
        parts.append(f"{part} {plural(searched['beam_to'], 'symbol')}")
    return parts


def _all_right(searched: SearchRecord) -> list[str]:
    from lrbench.report.output.display import plural

    to = searched["complete_to"]
    return [f"every string to {plural(to, 'symbol')} is right"] if to else []


def _open(found: Certified) -> list[str]:
    from lrbench.runs.evaluate.certify import REFUSED

    searched, proof = found.record["searched"], found.record["proof"]
    lead = searched["least_margin"]
    lines = [
        f"open: no string was found that it gets wrong ({searched['seconds']:,.1f} s)",
        f"  {'; '.join(_tried(searched)) or 'no string was tried'}",
        *_out_of_time(searched),
    ]
    if lead is not None and searched["strings"]:
        read = f"of {searched['strings']:,} strings that were read"
        lines.append(f"  the narrowest answer {read} leads by {lead:.3g}")
    lines += _unconfirmed(searched)
    if proof["refusal"]:
        lines.append(f"  {proof['refusal']}")
    elif proof["nodes"] and proof["obstacle"].startswith(REFUSED):
        lines.append(f"  no proof: {proof['obstacle']}")
    elif proof["nodes"]:
        why = f": {proof['obstacle']}" if proof["obstacle"] else ""
        lines.append(f"  no proof: {proof['nodes']:,} boxes do not close{why}")
    lines.append("  that nothing was found proves nothing for strings that were not tried")
    return lines


def _prediction(found: Certified) -> str:
    """What is foretold of a linear recurrence, empty where nothing is."""
    predicted = found.record.get("foretold")
    if predicted is None or not predicted["accuracies"]:
        return ""
    longest = max(map(int, predicted["accuracies"]))
    if predicted["first_below"] is None:
        return f"at least 0.99 to {longest:,}"
    below = predicted["first_below"]
    value = predicted["accuracies"][str(below)]
    until = "" if predicted["horizon"] is None else f"at least 0.99 to {predicted['horizon']:,}, "
    return f"{until}{value:.3f} at {below:,}"


def _on_random_strings(run: Path, which: str) -> str:
    """What the final tests of a run say of the same checkpoint: '1.0000 of 10,000 at 500'."""
    from lrbench.runs.folder import files
    from lrbench.runs.folder.files import UnreadableFile

    try:
        rows = files.read_json(run / "result.json")["evaluations"]
    except (UnreadableFile, KeyError):
        return ""  # a run under way has no tests yet
    fresh = [
        row
        for row in rows
        if (row["kind"], row["metric"], row["which"]) == ("test", "accuracy", which)
    ]
    longest = sorted(fresh, key=lambda row: int(row["length"]))[-2:]
    return ", ".join(
        f"{row['value']:.4f} of {row['n']:,} at {row['length']:,}"
        for row in longest
        if row["value"] is not None
    )
