"""The work of `lrbench diagnose`: a look into a checkpoint, and what `certify` wrote of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrbench.certificates import check
from lrbench.certificates.foretold import affine_steps, foretell
from lrbench.certificates.reader import SymbolReader
from lrbench.certificates.record import (
    COUNTEREXAMPLE,
    FORMAT,
    VERSION,
    ForetoldRecord,
    foretold_record,
    weights_digest,
    wrong_on,
)
from lrbench.diagnosis.dynamics import MOST_SYMBOLS, growth, order_of, spectra
from lrbench.diagnosis.extraction import extract
from lrbench.diagnosis.findings import Diagnosis
from lrbench.diagnosis.states import margins_along, survey
from lrbench.errors import UserError
from lrbench.report.output.display import plural
from lrbench.runs.evaluate.certify import FORETOLD_TO, UNEVEN, loaded
from lrbench.runs.evaluate.kept import certificate_file, witness_file
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.train.result import task_title
from lrbench.runs.train.validate import resolve_device
from lrbench.tasks.base import Task
from lrbench.tasks.machine import Machine
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.procedure import parse_lengths

LENGTHS = (40, 500, 5003)
MOST_LENGTH = 1_000_000
GROWING_TO = 500  # symbols of a string whose state grows with it: each step costs all before it


@run_arithmetic()
def diagnose_run(
    folder: Path,
    which: str = "last",
    lengths: str = "",
    device_name: str = "cpu",
    begins: Callable[[str], object] = lambda part: None,
) -> Diagnosis:
    """Look into the checkpoint that rule `which` kept of a run. Nothing is written.

    `lengths` are of random strings, comma-separated. `begins` is called with the name of each part
    before it, since one may take half a minute. Raises UserError for a folder that holds no
    such run, for a task that is no finite automaton, for a length that it does not have, and for a
    model that carries no state.
    """
    began = time.perf_counter()
    device = resolve_device(device_name)
    run = trained(folder, which)
    task, model = loaded(run, folder, which, device)
    machine = task.machine()
    assert machine is not None  # `loaded` refused it otherwise
    grows = getattr(model, "state_size", 0) is None
    wanted, unsaid = _lengths(task, lengths, grows)
    stream = task.stream(run.seed, "diagnose")
    begins(f"random strings of up to {wanted[-1]:,} symbols")
    seen = survey(model, task, machine, wanted, stream, device)
    begins("the automaton that it seems to be")
    extracted = extract(model, machine, device)
    digest = weights_digest(model.state_dict())
    verdict, known = _kept(folder, which, digest, task, machine)
    word = (known.get("witness") or {}).get("tokens", [])
    margins = margins_along(model, machine, word, device)
    begins("its eigenvalues or Jacobians, and the accuracy that they predict")
    model = model.cpu()
    several = len(getattr(model, "stateful", ()))
    steps = affine_steps(SymbolReader(model), machine.symbols, of_several=True)
    order = order_of(machine)
    linear = steps if isinstance(steps, str) else spectra(steps, order)
    grown: Any = "the step is linear: its eigenvalues say it all"
    if isinstance(linear, str) or several > 1:
        grown = growth(model, machine)
        if isinstance(grown, str):
            unsaid.append(f"products of Jacobians: {grown}")
        elif machine.symbols > MOST_SYMBOLS:
            unsaid.append(f"products of Jacobians of other symbols than the first {MOST_SYMBOLS}")
    if not isinstance(linear, str) and several > 1:
        unsaid.append("eigenvalues of other layers than the first: they depend on the string")
    if isinstance(linear, str) and not grows and isinstance(grown, str):
        unsaid.append(f"eigenvalues: {linear}")
    foretold = known.get("foretold") or foretold_record(
        foretell(model, machine, min(wanted[-1], FORETOLD_TO)) if task.uniform_letters else UNEVEN
    )
    config = run.config
    return Diagnosis(
        title=f"{task_title(config.task)} · {config.model.name}",
        about=(
            f"{which} of {folder}",
            f"update {run.step:,}",
            f"looked at for {time.perf_counter() - began:.1f} s on {device}",
        ),
        symbols=task.vocabulary,
        states=machine.names,
        classes=task.class_names,
        layers=several,
        verdict=verdict,
        survey=seen,
        order=order,
        linear=linear,
        growth=grown,
        extracted=extracted,
        foretold=foretold,
        unsaid=tuple(unsaid),
        wrong=tuple((task.vocabulary[s], margin) for s, margin in zip(word, margins, strict=True)),
    )


def _lengths(task: Task, text: str, grows: bool) -> tuple[list[int], list[str]]:
    """Return the lengths to look at, in order, and what is left out of them."""
    requested = parse_lengths(text, ())
    for length in requested:
        if not task.valid_length(length):
            raise UserError(
                f"task {task.name}: no strings of length {length}; it has {task.length_rule}\n"
                f"use {task.nearest_length(length)}, the nearest below",
                exit_code=2,
            )
        if length > MOST_LENGTH:
            raise UserError(f"--lengths must be at most {MOST_LENGTH:,}, not {length}", exit_code=2)
    lengths = sorted(set(requested or map(task.nearest_length, LENGTHS)))
    if not grows:
        return lengths, []
    kept = [n for n in lengths if n <= GROWING_TO] or [task.nearest_length(GROWING_TO)]
    left = [f"{n:,}" for n in lengths if n > GROWING_TO]
    unsaid = ["states and their saturation: the state grows with the string"]
    if left:
        unsaid.append(f"anything at {', '.join(left)}: for the same reason")
    return kept, unsaid


def _kept(
    folder: Path, which: str, digest: str, task: Task, machine: Machine
) -> tuple[str, dict[str, Any]]:
    """Return what `lrbench certify` found of these weights in a sentence, and its file's content.

    The content is empty where there is no such file, or none that can be used. A file that cannot
    is named after what the other one says.
    """
    hint = f"lrbench certify {folder} --which {which}"
    unusable: list[str] = []
    for file in (certificate_file(folder, which), witness_file(folder, which)):
        if not file.exists():
            continue
        try:
            content = files.read_json(file)
            if (
                content.get("format") not in (FORMAT, COUNTEREXAMPLE)
                or content["version"] != VERSION
            ):
                raise UnreadableFile(file, "not of a format that is known")
            if content["weights_sha256"] != digest:
                continue
            machine.walk((content.get("witness") or {}).get("tokens", []))
            foretold = content.get("foretold", {})
            if foretold and not ForetoldRecord.__required_keys__ <= foretold.keys():
                raise KeyError("foretold")
            if content.get("verdict") == "certified":
                check.check(file)
            return "; ".join([f"{_verdict(content, task)}, says {file.name}", *unusable]), content
        except (UnreadableFile, check.Refused) as error:
            reason = error.reason if isinstance(error, UnreadableFile) else f"refused: {error}"
            unusable.append(f"'{file}' cannot be used ({reason}); again: {hint}")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            unusable.append(f"'{file}' cannot be used ({error}); again: {hint}")
    if unusable:
        return "; ".join(unusable), {}
    return f"not searched for wrong strings yet: {hint}", {}


def _verdict(content: dict[str, Any], task: Task) -> str:
    witness = content.get("witness")
    if witness:
        return wrong_on(task, witness)
    if content["verdict"] == "certified":
        margin = content["proof"]["margin"]
        return f"certified: right on every string of every length (least margin {margin:.3g})"
    if content["verdict"] != "open":
        raise ValueError(f"verdict {content['verdict']!r:.40}")
    complete = plural(content["searched"]["complete_to"], "symbol")
    return f"open: no wrong string was found (every string to {complete} is right)"
