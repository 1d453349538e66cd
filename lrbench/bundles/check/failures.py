"""What a bundle says of its runs on all strings: certificates, put to the packed weights again.

A wrong string is given to the weights once more, and a proof goes through the checker. Where no
shorter one is said to be wrong, the shorter ones are tried again, up to a number of them. A suite
also searches again where no string is said to be wrong.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import torch

from lrbench.bundles.check.stated import LONGEST
from lrbench.bundles.choice import TableChoice
from lrbench.certificates import check
from lrbench.certificates.record import joined
from lrbench.certificates.witness import SearchBudget, search
from lrbench.protocols.base import SearchExtent, declared
from lrbench.records import Result
from lrbench.report.output.display import plural
from lrbench.report.runs.certificates import FOLDER
from lrbench.runs.evaluate.certify import loaded, of_these_weights, recheck
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.validate import check_fits
from lrbench.tables import SUITE

ASKED = 100_000  # strings of a length, at most, that are tried again: a second or so, as in a suite
NOT_ONE = "that no string was found wrong"
SHORTER = "that no shorter string is wrong"


def suite_extent(choice: TableChoice) -> SearchExtent | None:
    """Return how far a suite searches its runs; None of other tables."""
    if choice.table is None or choice.table.kind != SUITE:
        return None
    return declared(choice.table.protocol).search


class PutAgain(NamedTuple):
    """The outcome for one certificate.

    problem: how it differs from what the weights do. unchecked: the part that nothing was held
    against. Both are "" where there is none.
    """

    problem: str = ""
    unchecked: str = ""


def put_again(folder: Path, run: str, rule: str, extent: SearchExtent | None) -> PutAgain:
    """Put the certificate of the run in `folder` to its weights, in a suite as far as `extent`.

    Nothing in the checkpoint is executed. Raises UserError where it cannot be put to the weights.
    """
    file = folder / FOLDER / f"{rule}.json"
    content = json.loads(file.read_text())
    if content["verdict"] == "certified":
        try:
            proof = check.check(file)
        except check.Refused as why:
            return PutAgain(f"{run}: its proof is refused: {why}")
        of_these_weights(file, folder, proof["automaton"])
        return PutAgain()
    of_these_weights(file, folder)
    witness, longest = content.get("witness"), math.inf
    if witness is not None and witness["length"] > LONGEST:
        return PutAgain(
            f"{run}: its wrong string has more than {LONGEST:,} symbols, which nobody reads"
        )
    run_here, device = trained(folder, rule), torch.device("cpu")
    check_fits(run_here.config, device)
    task, model = loaded(run_here, folder, rule, device)
    if witness is not None:
        longest = witness["length"]
        again = recheck(file, folder)
        if not again.confirmed:
            return PutAgain(f"{run}: right on the string that it is said to get wrong")
        if (longest, witness["string"]) != (again.length, joined(task, witness["tokens"])):
            return PutAgain(f"{run}: its string is not of the length and the words that are told")
    shortest = witness is not None and witness["shortest"]
    if extent is None and not shortest:
        return PutAgain(unchecked=NOT_ONE if witness is None else "")
    if extent is None:
        extent = SearchExtent(ASKED, 0, 0, int(longest) - 1)
    elif shortest:  # all that are shorter, which are right
        extent = extent._replace(families=0, beam=0)
    machine = task.machine()
    assert machine is not None  # `loaded` refused it otherwise
    found = search(model, machine, SearchBudget(*extent), device)
    if found.witness is not None and found.witness.length < longest:
        return PutAgain(f"{run}: wrong on a string of {plural(found.witness.length, 'symbol')}")
    beyond = shortest and found.complete_to < longest - 1
    return PutAgain(unchecked=SHORTER if beyond else "")


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
