"""A certificate's two files, read without trust: sizes first, every key known, nothing executed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

MOST_BYTES, MOST_TEXT = 1 << 28, 1 << 20
MOST_WORDS = 200  # characters of a key or a value that is printed

# What is proved, and what it is proved of: all of it is used or checked
PROVED = {
    "format",
    "version",
    "verdict",
    "task",
    "model",
    "dtype",
    "arithmetic",
    "weights_sha256",
    "arrays",
}
# Where it came from and how it was found. Nothing follows from these; only their form is checked.
# trained_again: of a published table's run, made anew by the same configuration.
ORIGIN = {
    "which": str,
    "step": int,
    "seed": int,
    "lrbench": str,
    "date": str,
    "trained_again": str,
}
SEARCH = {
    "complete_asked": int,
    "complete_to": int,
    "families_asked": int,
    "families": int,
    "families_kept": int,
    "families_to": int,
    "beam": int,
    "beam_kept": int,
    "beam_to": int,
    "longest": int,
    "strings": int,
    "unconfirmed": int,
    "unconfirmed_from": int,
    "least_margin": float,
    "least_margin_at": str,
    "seconds": float,
    "seconds_allowed": float,
    "out_of_time": list,
}
PROOF = {
    "refusal": str,
    "nodes": int,
    "depth": int,
    "within": float,
    "rounds": int,
    "margin": float,
    "obstacle": str,
    "seconds": float,
}
OPTIONAL = {"unconfirmed_from", "least_margin", "seconds_allowed", "within", "margin"}  # or null
ARRAYS = {"lo", "hi", "next", "task/start", "task/edges", "task/answers"}  # and the weights, w/...


class Refused(Exception):
    """The file proves nothing, and why."""


def need(holds: bool, otherwise: str) -> None:
    """Raise Refused unless something holds."""
    if not holds:
        raise Refused(otherwise)


def read(file: Path) -> tuple[Any, dict[str, Any]]:
    """Return what a certificate says, and its arrays by name.

    Every key has been seen to be known, and of its kind; task, model and arrays are still to be
    judged. Raises Refused.
    """
    try:
        need(file.exists(), "there is no such file")
        need(file.is_file(), "no plain file")  # a pipe would wait, a device never end
        need(file.stat().st_size <= MOST_TEXT, "too large for a certificate")
        claim = json.loads(file.read_text(), object_pairs_hook=_once, parse_constant=_no_number)
        need(isinstance(claim, dict) and claim.get("format") == "lrbench-certificate", "no format")
        need(_is(claim.get("version"), int) and claim["version"] == 1, "another version than 1")
        need(claim.get("verdict") == "certified", "it proves nothing")
        _check_keys(claim)
        name = claim["arrays"]["file"]
        need(Path(name).name == name and name.endswith(".npz"), "arrays must lie beside the file")
        path = file.with_name(name)
        need(path.is_file(), f"its arrays, {name[:100]}, do not lie beside it")
        need(path.stat().st_size <= MOST_BYTES, "arrays too large")
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        need(sha == claim["arrays"]["sha256"], "the arrays are not those of the digest")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            need(sum(member.file_size for member in members) <= MOST_BYTES, "arrays too large")
            names = [member.filename for member in members]
            need(len(set(names)) == len(names), "two arrays of one name")
            # numpy calls both x and x.npy by the name x
            need(all(n.endswith(".npy") for n in names), "a member that is no .npy array")
        arrays = {n.removesuffix(".npy") for n in names}
        unknown = sorted(n for n in arrays if n not in ARRAYS and not n.startswith("w/"))
        need(not unknown, f"an unknown array: {', '.join(unknown)[:MOST_WORDS]}")
        need({"lo", "hi", "next"} <= arrays, "lo, hi and next must be there")
        with np.load(path, allow_pickle=False) as stored:
            return claim, {n: stored[n] for n in stored.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, RecursionError, EOFError) as error:
        raise Refused(f"it cannot be read: {str(error)[:200]}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    need(len(found) == len(pairs), "a key that stands twice")
    return found


def _no_number(name: str) -> None:
    raise Refused(f"{name}, which is no number of JSON")


def _check_keys(claim: dict[str, Any]) -> None:
    known = PROVED | set(ORIGIN) | {"searched", "proof", "witness"}
    check_known("the certificate", claim, known)
    missing = sorted(PROVED - set(claim))
    need(not missing, f"no {', '.join(missing)}")
    need(all(isinstance(claim[k], dict) for k in ("task", "model", "arrays")), "no parts")
    need(set(claim["arrays"]) == {"file", "sha256"}, "arrays: other keys than file and sha256")
    need(all(isinstance(v, str) for v in claim["arrays"].values()), "arrays: no names")
    need(claim["dtype"] == "float32", "another dtype than float32")
    need(claim.get("witness") is None, "a string that is wrong beside a proof")
    _check_kinds("the certificate", claim, ORIGIN)
    for part, kinds in (("searched", SEARCH), ("proof", PROOF)):
        inner = claim.get(part, {})
        need(isinstance(inner, dict), f"{part} is of another kind")
        check_known(part, inner, set(kinds))
        _check_kinds(part, inner, kinds)
    proof = claim.get("proof", {})
    need(not proof.get("refusal") and not proof.get("obstacle"), "a proof that is said to be none")


def check_known(where: str, claim: dict[str, Any], known: set[str]) -> None:
    """Raise Refused for a key that is not one of `known`."""
    unknown = sorted(set(claim) - known)
    need(not unknown, f"an unknown key of {where}: {', '.join(unknown)[:MOST_WORDS]}")


def _check_kinds(where: str, claim: dict[str, Any], kinds: dict[str, type]) -> None:
    for key, kind in kinds.items():
        value = claim.get(key)
        if key in claim and not (value is None and key in OPTIONAL):
            need(_is(value, kind), f"{key} of {where} is of another kind")


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a kind: true is no number, whole ones are floats, a list has words."""
    words = not isinstance(value, list) or all(isinstance(one, str) for one in value)
    return (type(value) is kind or (kind is float and type(value) is int)) and words


def digest(weights: dict[str, Any]) -> str:
    """Return the sha256 of names, shapes and numbers, sorted by name."""
    found = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name])
        found.update(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
        found.update(value.tobytes())
    return found.hexdigest()
