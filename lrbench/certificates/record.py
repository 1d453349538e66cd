"""Files of what was found: certificates/<rule>.json of a run, and counterexample.json.

Both name the weights by a digest, so that nobody takes a finding for that of other weights.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal, NotRequired, TypedDict

import torch
from torch import Tensor

from lrbench.certificates.boxes import BlownUp
from lrbench.certificates.foretold import Foretold
from lrbench.certificates.proof import ProofSearch
from lrbench.certificates.witness import Witness, WitnessSearch
from lrbench.tasks.base import Task

FORMAT, COUNTEREXAMPLE, VERSION = "lrbench-certificate", "lrbench-counterexample", 1
WRITTEN_OUT = 60  # symbols; of longer strings, runs of a symbol are counted
COUNTED = 6  # symbols of a run that is
LARGEST_FLOAT = int(sys.float_info.max)

Verdict = Literal["certified", "open", "wrong"]


class WitnessRecord(TypedDict):
    """A string that the model gets wrong at its last position.

    string: the symbols, as a person writes them. given: the class's name, None where the logits
    are not finite. shortest: whether every shorter string was tried, symbol by symbol, and found
    right. one_in: how many random strings of this length hold it once, None beyond a float.
    """

    string: str
    tokens: list[int]
    length: int
    given: str | None
    right: str
    found_by: str
    shortest: bool
    one_in: float | None
    one_in_log10: float | None


class SearchRecord(TypedDict):
    """How far a search went; the fields of `WitnessSearch` say what each is.

    complete_asked, families_asked, beam, longest: the budget. beam_kept: strings for each state
    that were kept. unconfirmed_from: None where there are none. least_margin: None where no right
    answer was met. seconds_allowed: None without a limit.
    """

    complete_asked: int
    complete_to: int
    families_asked: int
    families: int
    families_kept: int
    families_to: int
    beam: int
    beam_kept: int
    beam_to: int
    longest: int
    strings: int
    unconfirmed: int
    unconfirmed_from: int | None
    least_margin: float | None
    least_margin_at: str
    seconds: float
    seconds_allowed: float | None
    out_of_time: list[str]


class ProofRecord(TypedDict):
    """Boxes that were sought for a proof: refused, tried or closed.

    nodes: of the closed graph, or of the last that was tried. depth: how many of the last symbols
    its nodes know; within: how near the strings of a node lead, where they are gathered by that.
    margin: the least lead in logits that the checker vouches for. obstacle: what stands in the way.
    """

    refusal: str
    nodes: int
    depth: int
    within: float | None
    rounds: int
    margin: float | None
    obstacle: str
    seconds: float


class ForetoldRecord(TypedDict):
    """Accuracy on random strings that is foretold of a linear recurrence, by length.

    refusal: why nothing is foretold. horizon: the largest length up to which it is at least 0.99;
    first_below: the first at which it is not, None where there was none.
    """

    refusal: str
    accuracies: dict[str, float]
    horizon: int | None
    first_below: int | None


class SubjectRecord(TypedDict):
    """Which weights are spoken of: those that rule `which` kept of a run, at update `step`."""

    task: dict[str, Any]  # name, settings, version
    model: dict[str, Any]  # as in config.json
    which: str
    step: int
    seed: int
    dtype: str
    weights_sha256: str


class CertificateRecord(SubjectRecord):
    """The content of certificates/<rule>.json, and of counterexample.json without `verdict`."""

    format: str
    version: int
    verdict: NotRequired[Verdict]
    searched: SearchRecord
    witness: WitnessRecord | None
    proof: NotRequired[ProofRecord]
    foretold: NotRequired[ForetoldRecord]
    arithmetic: NotRequired[dict[str, Any]]
    arrays: NotRequired[dict[str, str]]
    lrbench: str
    date: str


def weights_digest(weights: Mapping[str, Any]) -> str:
    """Return the sha256 of names, shapes and numbers of a state_dict, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        value: Tensor = torch.as_tensor(weights[name]).detach().cpu().contiguous()
        shape = json.dumps([name, list(value.shape), str(value.dtype).removeprefix("torch.")])
        digest.update(shape.encode())
        digest.update(
            torch.view_as_real(value).numpy().tobytes()
            if value.is_complex()
            else value.numpy().tobytes()
        )
    return digest.hexdigest()


def witness_record(task: Task, witness: Witness) -> WitnessRecord:
    """Return what a file says of a witness."""
    names, uniform = task.class_names, task.uniform_letters
    return {
        "string": joined(task, witness.tokens),
        "tokens": list(witness.tokens),
        "length": witness.length,
        "given": None if witness.given is None else names[witness.given],
        "right": names[witness.right],
        "found_by": witness.found_by,
        "shortest": witness.shortest,
        "one_in": float(witness.rarity) if uniform and witness.rarity <= LARGEST_FLOAT else None,
        "one_in_log10": round(math.log10(witness.rarity), 3) if uniform else None,
    }


def search_record(task: Task, search: WitnessSearch) -> SearchRecord:
    """Return what a file says of how far a search went."""
    met, allowed = search.least_margin_at != (), search.budget.seconds
    return {
        "complete_asked": search.budget.complete,
        "complete_to": search.complete_to,
        "families_asked": search.budget.families,
        "families": search.families,
        "families_kept": search.families_kept,
        "families_to": search.families_to,
        "beam": search.budget.beam,
        "beam_kept": search.beam,
        "beam_to": search.beam_to,
        "longest": search.budget.longest,
        "strings": search.strings,
        "unconfirmed": search.unconfirmed,
        "unconfirmed_from": search.unconfirmed_from,
        "least_margin": search.least_margin if met else None,
        "least_margin_at": joined(task, search.least_margin_at),
        "seconds": round(search.seconds, 3),
        "seconds_allowed": allowed if math.isfinite(allowed) else None,
        "out_of_time": list(search.out_of_time),
    }


def proof_record(task: Task, found: ProofSearch, margin: float | None) -> ProofRecord:
    """Return what a file says of the search for boxes; `margin` is the checker's."""
    record: ProofRecord = {
        "refusal": found.refusal,
        "nodes": 0,
        "depth": 0,
        "within": None,
        "rounds": 0,
        "margin": margin,
        "obstacle": "",
        "seconds": round(found.seconds, 3),
    }
    last = found.boxes or (found.tried[-1] if found.tried else None)
    if last is None:
        return record
    nodes = last.nodes
    record |= {"nodes": len(nodes), "depth": nodes.depth, "within": nodes.within}
    record["rounds"] = last.rounds
    if isinstance(last, BlownUp) and last.word is not None:
        record["obstacle"] = f"{last.cause} after {shortened(task, last.word)}"
    return record


def foretold_record(found: Foretold | str) -> ForetoldRecord:
    """Return what a file says of a foretold horizon, or why there is none."""
    if isinstance(found, str):
        return {"refusal": found, "accuracies": {}, "horizon": None, "first_below": None}
    accuracies = {str(length): round(value, 6) for length, value in found.accuracies.items()}
    return {
        "refusal": "",
        "accuracies": accuracies,
        "horizon": found.horizon,
        "first_below": found.first_below,
    }


def now() -> str:
    """Return the time, in UTC, as files have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def joined(task: Task, tokens: tuple[int, ...]) -> str:
    """Return the symbols in a row, with spaces only where a symbol has several characters."""
    symbols = [task.vocabulary[token] for token in tokens]
    return ("" if all(len(symbol) == 1 for symbol in symbols) else " ").join(symbols)


def wrong_on(task: Task, witness: Mapping[str, Any]) -> str:
    """Return what a witness of a record or its file says, as one line."""
    how = "the shortest there is" if witness["shortest"] else "the shortest found"
    plural = "s" if witness["length"] > 1 else ""
    return (
        f"wrong on {shortened(task, tuple(witness['tokens']))} ({witness['length']:,}"
        f" symbol{plural}, {how}): {witness['given'] or 'nothing finite'} instead of"
        f" {witness['right']}"
    )


def shortened(task: Task, tokens: tuple[int, ...]) -> str:
    """Return a string as a line can hold it: long runs of a symbol counted, else its two ends."""
    if len(tokens) <= WRITTEN_OUT:
        return joined(task, tokens)
    pieces, written = [], 0
    for token, run in groupby(tokens):
        count = len(list(run))
        symbol = task.vocabulary[token]
        piece = symbol * count if count < COUNTED else f" {symbol}\N{MULTIPLICATION SIGN}{count:,} "
        pieces.append(piece)
        written += len(piece)
    if written <= 2 * WRITTEN_OUT:
        return "".join(pieces).strip()
    half = WRITTEN_OUT // 2
    return f"{joined(task, tokens[:half])} ... {joined(task, tokens[-half:])}"
