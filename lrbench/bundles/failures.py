"""What a bundle says of its runs on all strings: certificates, put to the packed weights again.

A wrong string is given to the weights once more, and a proof goes through the checker. A suite
searches a run again if its certificate says that no string, or no shorter one, is wrong.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from lrbench.bundles.choice import TableChoice
from lrbench.bundles.stated import LONGEST
from lrbench.certificates import check
from lrbench.certificates.record import joined
from lrbench.certificates.witness import SearchBudget, search
from lrbench.errors import UserError
from lrbench.protocols.base import SearchExtent, declared
from lrbench.records import Result
from lrbench.report.output.display import plural
from lrbench.report.runs.certificates import FOLDER, certificate_names, complaint
from lrbench.runs.evaluate.certify import loaded, of_these_weights, recheck
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.validate import check_fits
from lrbench.tables import SUITE


def certificate_files(folder: Path, rule: str) -> list[str]:
    """Return what is known of a run's checkpoint on all strings, as paths below its folder."""
    name = f"{FOLDER}/{rule}.json"
    if not (folder / name).is_file():
        return []
    try:
        content: Any = json.loads((folder / name).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{folder / name} cannot be read: {str(error)[:200]}") from error
    if (wrong := complaint(content)) is not None:
        raise UserError(f"{folder / name} {wrong}")
    proved = content["verdict"] == "certified"
    return [name, f"{FOLDER}/{rule}.npz"] if proved else [name]


def answers_of(folder: Path) -> list[str]:
    """Return the rules whose checkpoints of a run have an answer on all strings."""
    try:
        names = certificate_names(folder)
    except OSError as error:
        raise UserError(f"{folder / FOLDER} cannot be listed: {error.strerror}") from error
    return [Path(name).stem for name in names]


def suite_extent(choice: TableChoice) -> SearchExtent | None:
    """Return how far a suite searches its runs; None of other tables."""
    if choice.table is None or choice.table.kind != SUITE:
        return None
    return declared(choice.table.protocol).search


def put_again(folder: Path, run: str, rule: str, extent: SearchExtent | None) -> str:
    """Return what is wrong with the certificate of the run in `folder`; empty where it holds.

    Nothing in the checkpoint is executed. Raises UserError where it cannot be put to the weights.
    """
    file = folder / FOLDER / f"{rule}.json"
    content = json.loads(file.read_text())
    if content["verdict"] == "certified":
        try:
            proof = check.check(file)
        except check.Refused as why:
            return f"{run}: its proof is refused: {why}"
        of_these_weights(file, folder, proof["automaton"])
        return ""
    of_these_weights(file, folder)
    witness, longest = content.get("witness"), math.inf
    if witness is not None and witness["length"] > LONGEST:
        return f"{run}: its wrong string has more than {LONGEST:,} symbols, which nobody reads"
    run_here, device = trained(folder, rule), torch.device("cpu")
    check_fits(run_here.config, device)
    task, model = loaded(run_here, folder, rule, device)
    if witness is not None:
        longest = witness["length"]
        again = recheck(file, folder)
        if not again.confirmed:
            return f"{run}: right on the string that it is said to get wrong"
        if (longest, witness["string"]) != (again.length, joined(task, witness["tokens"])):
            return f"{run}: its string is not of the length and the words that are told"
    if extent is None:
        return ""
    if witness is not None and witness["shortest"]:  # all that are shorter, which are right
        extent = extent._replace(families=0, beam=0)
    machine = task.machine()
    assert machine is not None  # `loaded` refused it otherwise
    found = search(model, machine, SearchBudget(*extent), device).witness
    if found is None or found.length >= longest:
        return ""
    return f"{run}: wrong on a string of {plural(found.length, 'symbol')}"


def other_answers(files: dict[str, bytes], rule: str) -> list[str]:
    """Return what is wrong with certificates of other rules than the bundle's.

    Their weights are not there. A table shows them all the same, and where two rules kept one
    update, the answer of one stands for the other.
    """
    named = [name for name in sorted(files) if name.endswith(".json") and f"/{FOLDER}/" in name]
    return [
        f"{name} is of another checkpoint than the bundle's, {rule}"
        for name in named
        if not name.endswith(f"/{FOLDER}/{rule}.json")
    ]


def searched_runs(
    files: dict[str, bytes], runs: str, results: dict[str, Result], rule: str
) -> list[str]:
    """Return the runs of a bundle that have a certificate and the weights that it is of."""
    return [
        run
        for run in sorted(results)
        if f"{runs}/{run}/{FOLDER}/{rule}.json" in files
        and f"{runs}/{run}/checkpoints/{rule}.pt" in files
    ]
