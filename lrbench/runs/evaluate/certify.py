"""The work of `lrbench certify`: a search for a wrong string or a proof, and its kept answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lrbench.certificates import check
from lrbench.certificates.boxes import Boxes
from lrbench.certificates.foretold import foretell
from lrbench.certificates.proof import MOST_NODES, arrays_bytes, arrays_record, find_proof
from lrbench.certificates.reader import SymbolReader
from lrbench.certificates.record import (
    COUNTEREXAMPLE,
    FORMAT,
    VERSION,
    CertificateRecord,
    SubjectRecord,
    Verdict,
    foretold_record,
    now,
    proof_record,
    search_record,
    weights_digest,
    witness_record,
)
from lrbench.certificates.witness import SearchBudget, search
from lrbench.config import Config
from lrbench.disk import may_write
from lrbench.errors import UserError
from lrbench.protocols.base import declared
from lrbench.records import recorded
from lrbench.runs.evaluate.evaluation import take_weights
from lrbench.runs.evaluate.kept import (
    FOLDER,
    WITNESS,
    are_tokens,
    as_checked,
    certificate_file,
    keep,
    known_proof,
    known_witness,
    witness_file,
)
from lrbench.runs.evaluate.trained import Trained, trained
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.train.own_task import check_own_answer, check_own_machine
from lrbench.runs.train.validate import resolve_device
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, Task
from lrbench.tasks.machine import Machine
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.precision import FLOAT32, precision_of
from lrbench.training.trial import model_for
from lrbench.version import __version__

FORETOLD_TO = 2000  # symbols
ROUNDED = "its products are rounded to bfloat16, and a proof is of float32"
UNKNOWN = "no proof is sought: the checker does not know the task"
UNEVEN = "the task does not draw its symbols uniformly"
REFUSED = "the checker refuses the boxes"


@dataclass(frozen=True)
class Certified:
    """A checkpoint, what is known of it on all strings, and the file that says so."""

    run: Trained
    task: Task
    model: torch.nn.Module
    record: CertificateRecord
    file: Path

    @property
    def verdict(self) -> Verdict:
        return self.record["verdict"]


@run_arithmetic()
def certify_run(
    folder: Path,
    which: str = "last",
    budget: SearchBudget | None = None,
    device_name: str = "cpu",
    output: Path | None = None,
    most_nodes: int = MOST_NODES,
    foretell_to: int = FORETOLD_TO,
) -> Certified:
    """Search for the shortest string that a run's checkpoint gets wrong; else for a proof.

    What is found is written to certificates/<which>.json of the run's folder, or to `output`, and
    a witness to a counterexample's file as well (kept.py); what was found before of the same
    weights is where the search begins. Of linear recurrences accuracy on random strings of
    up to `foretell_to` symbols is foretold. Raises UserError for a folder that holds no such run,
    for a task that is no finite automaton, for one of a plugin that is another automaton than it
    says, and where nothing can be written.
    """
    if output is not None:
        _check_output(output)
    device = resolve_device(device_name)
    run = trained(folder, which)
    task, model = loaded(run, folder, which, device)
    machine = task.machine()
    assert machine is not None  # `loaded` refused it otherwise
    subject = _subject(run, model, which)
    file = output or certificate_file(folder, which)
    witness = witness_file(folder, which) if output is None else file.with_name(WITNESS)
    for place in (file.parent, witness.parent):  # said before the work, not after it
        if not may_write(place):
            raise UserError(f"'{place}' cannot be written to\nname another file with --output FILE")
    found = search(model, machine, budget, device, known_witness(file, subject, witness))
    if found.witness is not None:
        check_own_answer(task, found.witness.tokens, found.witness.right)
    record: CertificateRecord = {
        "format": FORMAT,
        "version": VERSION,
        "verdict": "open" if found.witness is None else "wrong",
        **subject,  # type: ignore[typeddict-item]
        "searched": search_record(task, found),
        "witness": None if found.witness is None else witness_record(task, found.witness),
        "lrbench": __version__,
        "date": now(),
    }
    if found.witness is None:
        rounded = precision_of(run.config) != FLOAT32
        refusal = ROUNDED if rounded else "" if task.name in check.KNOWN else UNKNOWN
        proof = find_proof(model, subject["model"], machine, most_nodes, refusal)
        record["proof"] = proof_record(task, proof, None)
        if proof.boxes is not None:
            _certified(file, record, proof.boxes, model, machine)
        if record["verdict"] == "open" and not rounded:
            record |= known_proof(file, subject, machine)  # type: ignore[typeddict-item]
    if foretell_to and record["verdict"] != "certified":
        foretold = foretell(model, machine, foretell_to) if task.uniform_letters else UNEVEN
        record["foretold"] = foretold_record(foretold)
    keep(record, file, witness)
    return Certified(run, task, model, record, file)


def _check_output(output: Path) -> None:
    """Raise UserError for a file that is not ours to write: nobody's data is replaced."""
    if not output.name:
        raise UserError("--output must name a .json file", exit_code=2)
    arrays = output.with_suffix(".npz")
    taken = output.name in (WITNESS, "result.json")
    if output.suffix != ".json" or taken:
        raise UserError(
            f"--output '{output}' must be a .json file, and neither {WITNESS} nor result.json",
            exit_code=2,
        )
    try:
        ours = files.read_json(output).get("format") == FORMAT
    except UnreadableFile:
        ours = False
    targets = (output, arrays, output.with_name(WITNESS))
    if not ours and any(path.exists() for path in targets):
        raise UserError(
            f"--output '{output}': there are files of that name, or {arrays.name} or {WITNESS},"
            " that are no certificate's; choose another",
            exit_code=2,
        )


def _certified(
    file: Path, record: CertificateRecord, boxes: Boxes, model: torch.nn.Module, machine: Machine
) -> None:
    """Make `record` a certificate and write its arrays, if the checker takes them.

    A proof that it refuses is none: then the record stays open and says why.
    """
    content = arrays_bytes(boxes, model.state_dict(), machine)
    arrays = file.with_suffix(".npz")
    proved = {
        **record,
        "verdict": "certified",
        "arithmetic": check.ARITHMETIC,
        "arrays": arrays_record(content, arrays),
    }
    with TemporaryDirectory(prefix="lrbench-") as scratch:
        copy = Path(scratch) / file.name
        copy.with_name(arrays.name).write_bytes(content)
        copy.write_text(json.dumps(proved))
        try:
            accepted = check.check(copy)
        except check.Refused as why:
            record["proof"]["obstacle"] = f"{REFUSED}: {why}"
            return
    try:
        arrays.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(arrays, content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"'{arrays}' cannot be written: {reason}") from error
    record["proof"]["margin"] = accepted["margin"]
    record["verdict"] = "certified"
    record["arithmetic"] = check.ARITHMETIC
    record["arrays"] = arrays_record(content, arrays)


def loaded(
    run: Trained, folder: Path, which: str, device: torch.device
) -> tuple[Task, torch.nn.Module]:
    """Return task and model of a checkpoint; UserError for what has no machine to compare with."""
    config: Config = run.config
    task = make_task(config.task)
    check_own_machine(config.task)
    if task.machine() is None:
        where = "on its splits" if declared(config.protocol.name).by_split else "at any length"
        raise UserError(
            f"task {task.name} is no finite automaton that lrbench knows (Task.machine), so there"
            " is none to compare the model with\n"
            f"`lrbench evaluate {folder}` scores it {where}",
            exit_code=2,
        )
    torch.set_num_threads(config.threads)
    model = model_for(config, task, run.seed).to(device)
    take_weights(model, run.weights, folder, which)
    return task, model.eval()


def _subject(run: Trained, model: torch.nn.Module, which: str) -> SubjectRecord:
    config = recorded(run.config)
    task = make_task(run.config.task)
    return {
        "task": {
            "name": task.name,
            "settings": {k: v for k, v in config["task"].items() if k != "name"},
            "version": task.version,
        },
        "model": config["model"],
        "which": which,
        "step": run.step,
        "seed": run.seed,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "weights_sha256": weights_digest(model.state_dict()),
    }


@dataclass(frozen=True)
class Recheck:
    """A counterexample put to the weights once more.

    given and right are class names as they come out now; confirmed: the answer is wrong.
    """

    length: int
    given: str | None
    right: str
    confirmed: bool


@run_arithmetic()
def recheck(file: Path, folder: Path | None = None) -> Recheck:
    """Put the string of a counterexample, or of a certificate of `wrong`, to its weights again.

    The right answer is taken from the task's oracle, none of it from the file. `folder` is the run;
    if not given, it is the one that the file lies in. Raises UserError for a file that is neither,
    and for one of other weights.
    """
    content = _read(file)
    tokens, which = content.get("witness", {}).get("tokens"), str(content.get("which"))
    if not are_tokens(tokens):
        raise UserError(f"'{file}' names no string: 'witness.tokens' must be a list of symbols")
    above = file.resolve().parent  # the file may be named from its own folder
    place = folder or (above.parent if above.name == FOLDER else above)
    run = trained(place, which)
    task, model = loaded(run, place, which, torch.device("cpu"))
    if weights_digest(model.state_dict()) != content.get("weights_sha256"):
        raise UserError(
            f"'{file}' is of other weights than the '{which}' checkpoint of {place}\n"
            f"search these: lrbench certify {place} --which {which}"
        )
    try:
        states = task.machine()
        assert states is not None
        states.walk(tokens)
    except ValueError as error:
        raise UserError(f"'{file}': no valid string of {task.name}: {error}") from error
    right = task.oracle(tokens)[-1]
    if right == IGNORE:
        raise UserError(f"'{file}': nothing is asked at the end of its string")
    logits = SymbolReader(model).at_end(torch.tensor([tokens]))[0]
    given = int(logits.argmax()) if bool(logits.isfinite().all()) else None
    name = None if given is None else task.class_names[given]
    return Recheck(len(tokens), name, task.class_names[right], given != right)


def of_these_weights(file: Path, folder: Path, proved_of: check.Automaton | None = None) -> None:
    """Raise UserError unless a certificate is of the task, model and weights of a run.

    proved_of: the automaton of a proof, which must be the run's, state for state or not.
    """
    content = files.read_json(file)
    which = str(content.get("which"))
    run = trained(folder, which)
    task, model = loaded(run, folder, which, torch.device("cpu"))
    mine: Any = _subject(run, model, which)
    for part in ("task", "model", "step", "seed", "dtype", "weights_sha256"):
        if content.get(part) != mine[part]:
            of = {"weights_sha256": "other weights"}.get(part, f"another {part}")
            raise UserError(f"'{file}' is of {of} than the '{which}' checkpoint of {folder}")
    if proved_of is None:
        return
    if precision_of(run.config) != FLOAT32:
        raise UserError(f"'{file}' proves nothing of {folder}: {ROUNDED}")
    machine = task.machine()
    assert machine is not None  # `loaded` refused it otherwise
    if not check.same_language(proved_of, as_checked(machine)):
        raise UserError(f"'{file}' is of another automaton than the task of {folder}")


def _read(file: Path) -> dict[str, Any]:
    try:
        content = files.read_json(file)
    except UnreadableFile as error:
        raise UserError(f"{error}") from error
    if content.get("format") not in (COUNTEREXAMPLE, FORMAT) or content.get("version") != VERSION:
        raise UserError(
            f"'{file}' is no counterexample of version {VERSION}: its format is"
            f" {str(content.get('format'))[:40]!r}, version {str(content.get('version'))[:10]}"
        )
    if not isinstance(content.get("witness"), dict):
        raise UserError(f"'{file}' holds no witness")
    return content
