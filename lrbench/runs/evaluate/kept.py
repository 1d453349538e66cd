"""The kept results of searches in a run's folder: certificates, and strings it gets wrong.

    certificates/<rule>.json     what is known of the checkpoint of a rule (.npz: a proof's boxes)
    counterexample.json          the string that `last` gets wrong
    counterexample-<rule>.json   the string that another rule's checkpoint gets wrong

What a new search contradicts goes: no proof stands beside a wrong string of the same checkpoint,
and no file speaks of weights that are gone. A string of the same weights that is still wrong is
kept, and so is a proof that the checker still accepts, however short the new search was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lrbench.certificates import check
from lrbench.certificates.record import (
    COUNTEREXAMPLE,
    FORMAT,
    CertificateRecord,
    SubjectRecord,
    WitnessRecord,
)
from lrbench.certificates.witness import SEARCHES
from lrbench.errors import UserError
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.tasks.machine import Machine

FOLDER, WITNESS, USUAL = "certificates", "counterexample.json", "last"
MOST_TOKENS = 1_000_000  # of a string in a file from anywhere


def certificate_file(folder: Path, which: str) -> Path:
    """Return where a run keeps what is known of the checkpoint of a rule."""
    return folder / FOLDER / f"{which}.json"


def witness_file(folder: Path, which: str) -> Path:
    """Return where a run keeps the string that the checkpoint of a rule gets wrong."""
    return folder / (WITNESS if which == USUAL else f"counterexample-{which}.json")


def known_witness(file: Path, subject: SubjectRecord, witness: Path) -> tuple[tuple[int, ...], str]:
    """Return the shortest wrong string that a certificate's file tells of these very weights.

    Those of a run's other rules may be of the same weights, and count as well; so does the file of
    the `witness`, which may lie there alone. With the string comes the search that found it.
    Without one the string is empty.
    """
    rules = sorted(file.parent.glob("*.json")) if file.parent.name == FOLDER else [file]
    told = [_witness_of(path, subject) for path in (*rules, witness)]
    wrong = [(tokens, search) for tokens, search in told if tokens]
    return min(wrong, key=lambda one: len(one[0]), default=((), ""))


def _witness_of(file: Path, subject: SubjectRecord) -> tuple[tuple[int, ...], str]:
    content = _ours(file, FORMAT, COUNTEREXAMPLE)
    witness = content.get("witness") if _is_of(content, subject) else None
    if not isinstance(witness, dict) or witness.get("found_by") not in SEARCHES:
        return (), ""
    tokens: Any = witness.get("tokens")
    return (tuple(tokens), witness["found_by"]) if are_tokens(tokens) else ((), "")


def as_checked(machine: Machine) -> check.Automaton:
    """Return a task's machine as the checker has it."""
    rows = [list(row) for row in machine.delta]
    return check.Automaton(machine.start, rows, list(machine.answers))


def known_proof(file: Path, subject: SubjectRecord, machine: Machine) -> dict[str, Any]:
    """Return what a certificate's file says of a proof of these very weights that still holds.

    It must be of the automaton of the task. Without one, nothing.
    """
    content = _ours(file)
    if content.get("verdict") != "certified" or not _is_of(content, subject):
        return {}
    try:
        proved = check.check(file)
    except check.Refused:
        return {}
    if not check.same_language(proved["automaton"], as_checked(machine)):
        return {}
    return {
        key: content[key] for key in ("verdict", "proof", "arithmetic", "arrays") if key in content
    }


def _is_of(content: dict[str, Any], subject: SubjectRecord) -> bool:
    mine: dict[str, Any] = {**subject}
    return all(content.get(part) == mine[part] for part in ("task", "model", "weights_sha256"))


def keep(record: CertificateRecord, file: Path, witness: Path) -> None:
    """Write what was found, having removed what it contradicts.

    Raises UserError where nothing can be written.
    """
    arrays = file.with_suffix(".npz")
    stale = [] if record["witness"] is not None else [witness]
    if "arrays" not in record and isinstance(_ours(file).get("arrays"), dict):
        stale.append(arrays)
    path = file
    try:
        for path in stale:
            path.unlink(missing_ok=True)
        path = file
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(file, dict(record))
        if record["witness"] is not None:
            path = witness
            counterexample: dict[str, Any] = {k: v for k, v in record.items() if k != "verdict"}
            files.write_json(witness, counterexample | {"format": COUNTEREXAMPLE})
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        lines = [f"'{path}' cannot be written: {reason}", *_unwritten(record["witness"])]
        raise UserError("\n".join(lines)) from error


def _unwritten(witness: WitnessRecord | None) -> list[str]:
    """Say which wrong string was found, since no file says it."""
    if witness is None:
        return []
    return [f"found: wrong on '{witness['string']}' (length {witness['length']:,})"]


def are_tokens(tokens: Any) -> bool:
    """Whether something from a file is a string's symbols, as far as can be told without a task."""
    return (
        isinstance(tokens, list)
        and 0 < len(tokens) <= MOST_TOKENS
        and all(type(token) is int and token >= 0 for token in tokens)
    )


def _ours(file: Path, *formats: str) -> dict[str, Any]:
    """What a file of these formats, or a certificate's, says; nothing where none can be read."""
    try:
        content = files.read_json(file)
    except UnreadableFile:
        return {}
    return content if content.get("format") in (formats or (FORMAT,)) else {}
