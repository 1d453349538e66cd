"""Contents of a bundle: the json files, proof and one checkpoint of each run, plugins' source."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lrbench.certificates.record import weights_digest
from lrbench.errors import UserError
from lrbench.mixers.foreign.libraries import module_of
from lrbench.plugins import VARIABLE, load_plugins
from lrbench.plugins.sources import source_files, source_hash
from lrbench.records import Result
from lrbench.report.runs.certificates import FOLDER, certificate_names, complaint
from lrbench.report.runs.record import evaluation_files
from lrbench.runs.folder import checkpoints
from lrbench.runs.folder.files import UnreadableFile

OF_CELL = ("config.json", "environment.json")
OF_RUN = ("result.json", "failure.json", "metrics.jsonl")
DAMAGED = (TypeError, KeyError, AttributeError, ValueError, RuntimeError)  # in a stranger's file


@dataclass
class Contents:
    """Files by their path below the folder of runs; what every run was, and what it lacks.

    answers_left: the runs whose answers on all strings are of other checkpoints than those packed.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    without_checkpoint: list[str] = field(default_factory=list)
    answers_left: list[str] = field(default_factory=list)


def contents(root: Path, folders: list[str], rule: str) -> Contents:
    """Read the runs in `folders`. Raises UserError where a file cannot be read."""
    found = Contents()
    for folder in folders:
        names = [(Path(folder).parent, name) for name in OF_CELL]
        answers = certificate_files(root / folder, rule)
        names += [
            (Path(folder), name) for name in (*OF_RUN, *evaluation_files(root / folder), *answers)
        ]
        for place, name in names:
            if (root / place / name).is_file():
                found.files[(place / name).as_posix()] = _read(root / place / name)
        if f"{folder}/result.json" not in found.files:
            continue
        found.files.pop(f"{folder}/failure.json", None)  # of an earlier try
        result = json.loads(found.files[f"{folder}/result.json"])
        found.results[folder] = result
        path = root / folder / "checkpoints" / f"{rule}.pt"
        if path.is_file():
            found.files[f"{folder}/checkpoints/{rule}.pt"] = _weights(path, result, rule)
        else:
            found.without_checkpoint.append(folder)
        if not answers:
            joined = _joined_answer(root / folder, result, rule)
            found.files |= {f"{folder}/{name}": data for name, data in joined.items()}
            if not joined and answers_of(root / folder):
                found.answers_left.append(folder)
    return found


def _joined_answer(folder: Path, result: Result, rule: str) -> dict[str, bytes]:
    """Return the answer of another rule that kept the very same weights, as that of `rule`.

    A training answers for its last weights alone, and a report shows that for every rule that kept
    them. The weights must be the same, not the update alone.
    """
    steps, path = result.get("checkpoints") or {}, folder / "checkpoints" / f"{rule}.pt"
    twins = [name for name, step in steps.items() if name != rule and step == steps.get(rule)]
    for twin in twins:
        try:
            names = certificate_files(folder, twin)
        except UserError:
            continue  # it is named among the damaged files
        if not names or not path.is_file():
            continue
        told = json.loads(_read(folder / names[0]))
        if told["step"] == steps[rule] and told.get("weights_sha256") == digest_of(path):
            answer = json.dumps(told | {"which": rule}, indent=2).encode() + b"\n"
            boxes = {name: _read(folder / name) for name in names[1:]}  # by the name it tells
            return {f"{FOLDER}/{rule}.json": answer} | boxes
    return {}


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


def digest_of(path: Path) -> str:
    """Return the sha256 of the weights in a checkpoint. Raises UserError where it has none."""
    try:
        return weights_digest(checkpoints.load(path)["model"])
    except UnreadableFile as error:
        raise UserError(f"its weights cannot be read: {error.reason}") from error
    except DAMAGED as error:
        raise UserError("its checkpoint has no weights") from error


def plugins_of(results: dict[str, Result]) -> dict[str, set[str]]:
    """Return the plugins that runs were made with, and every hash of their source."""
    used: dict[str, set[str]] = {}
    for result in results.values():
        for name, digest in ((result.get("versions") or {}).get("plugins") or {}).items():
            used.setdefault(str(name), set()).add(str(digest))
    return used


def not_hashed_of(results: dict[str, Result]) -> dict[str, list[str]]:
    """Return {plugin: files that it read in a run and that its hash, and so a bundle, lacks}."""
    found: dict[str, set[str]] = {}
    for result in results.values():
        for name, files in result.get("not_hashed", {}).items():
            found.setdefault(name, set()).update(files)
    return {name: sorted(files) for name, files in found.items()}


def libraries_of(results: dict[str, Result]) -> dict[str, str]:
    """Return the installed packages that hold layers of runs, and the targets' outermost names."""
    found = {}
    for result in results.values():
        settings = (result["config"].get("model") or {}).get("mixer") or {}
        for name in (result.get("versions") or {}).get("libraries") or {}:
            found[str(name)] = module_of(str(settings.get("target", ""))).partition(".")[0]
    return found


def _weights(path: Path, result: Result, rule: str) -> bytes:
    """Return the checkpoint without optimiser, generator and looks: a tenth, and nothing private.

    The bytes depend on nothing but the weights.
    """
    try:
        state = checkpoints.load(path)
    except UnreadableFile as error:
        raise UserError(f"a checkpoint cannot be bundled: {error}") from error
    refuse_other(state, result, rule, path)
    kept = {name: state[name] for name in ("model", "step", "fingerprint", "seed")}
    buffer = io.BytesIO()
    torch.save(checkpoints.plain(kept), buffer)
    return buffer.getvalue()


def refuse_other(state: Mapping[str, Any], result: Result, rule: str, path: Path) -> None:
    """Raise UserError for a checkpoint that a result was not made from."""
    recorded = (result["fingerprint"], result["seed"], (result.get("checkpoints") or {}).get(rule))
    if (state.get("fingerprint"), state.get("seed"), state.get("step")) != recorded:
        raise UserError(
            f"{path} is not the checkpoint that result.json was made from\n"
            f"result.json: {recorded}; it is of {state.get('fingerprint')},"
            f" seed {state.get('seed')}, update {state.get('step')}"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def plugin_sources(used: dict[str, set[str]]) -> dict[str, bytes]:
    """Return the files of the plugins in `used`, {module: hashes that runs recorded}.

    Raises UserError for one that is not loaded, or whose source is no longer what runs recorded.
    """
    loaded = {module.__name__: module for module in load_plugins().values()} if used else {}
    files: dict[str, bytes] = {}
    for name, hashes in sorted(used.items()):
        if name not in loaded:
            raise UserError(
                f"runs were made with the plugin '{name}', which is not there\n"
                f"fix: {VARIABLE}={name} lrbench bundle ..., from the folder that holds it"
            )
        if hashes != {source_hash(loaded[name])}:
            raise UserError(
                f"the source of plugin '{name}' was changed after runs were made with it\n"
                "a bundle holds the source its numbers come from: restore it,"
                " or choose the runs of the present one with --fingerprint"
            )
        files |= source_files(loaded[name])
    return files
