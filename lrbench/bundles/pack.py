"""Packing: the runs of a table, the table made from just these, and a manifest of it all."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.bundles import layout
from lrbench.bundles.anonymous import anonymised, identities, refuse_leaks
from lrbench.bundles.archive import packed, sha256
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.contents import (
    Contents,
    contents,
    not_hashed_of,
    plugin_sources,
    plugins_of,
)
from lrbench.bundles.data import data_of
from lrbench.errors import UserError
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.runs.folder.environment import environment
from lrbench.runs.folder.fingerprint import differing_keys, relevant

VERSIONS = ("lrbench", "python", "torch", "numpy", "pandas")


@dataclass(frozen=True)
class Bundle:
    """An archive's bytes, its hash, and what to tell about it."""

    data: bytes
    digest: str
    files: int
    runs: int
    without_checkpoint: list[str]
    not_hashed: dict[str, list[str]]  # {plugin: files that it read and that the bundle lacks}
    unfinished: list[str]  # runs of the table without a result
    damaged: list[str]  # files below the folder of runs that cannot be used, and why
    answers_left: list[str]  # runs with answers on all strings of other checkpoints alone


def pack(
    root: Path,
    choice: TableChoice,
    name: str,
    choose: tuple[str, ...] = (),
    anonymous: bool = False,
) -> Bundle:
    """Return the bundle of the runs below `root` that stand in the table.

    The same runs give the same bytes. `name` only says the kind of archive. Raises UserError where
    there is nothing to bundle, or something in it cannot be what its result says.
    """
    collection = collect(root)
    folders = choice.folders(collection, choose)
    found = contents(root, folders, choice.rule)
    if not found.results:
        raise UserError(
            f"no run of the table has ended\nlrbench status {root} shows how they stand"
        )
    plugins = plugin_sources(plugins_of(found.results))
    files = {f"{layout.RUNS}/{path}": data for path, data in found.files.items()}
    files |= {f"{layout.PLUGINS}/{path}": data for path, data in plugins.items()}
    files[layout.STRINGS] = _json({f: data_of(r) for f, r in found.results.items()})
    private_paths = [str(root), *_output_folders(found)]
    who = identities(private_paths) if anonymous else []
    if anonymous:
        open_ones, files = files, anonymised(files, who)
        _refuse_changed_settings(open_ones, files)
    files |= tables(files, choice)
    manifest = _manifest(files, choice, found, choose, anonymous)
    files[layout.MANIFEST] = _json(manifest)
    if anonymous:
        refuse_leaks(files, who)
    data = packed(files, name)
    return Bundle(
        data=data,
        digest=sha256(data),
        files=len(files),
        runs=len(folders),
        without_checkpoint=found.without_checkpoint,
        not_hashed=not_hashed_of(found.results),
        unfinished=choice.unfinished(collection),
        damaged=[f"{path} {reason}" for path, reason in collection.problems],
        answers_left=found.answers_left,
    )


def tables(files: dict[str, bytes], choice: TableChoice) -> dict[str, bytes]:
    """Return the table and runs.csv, made from the run folders among `files` and nothing else."""
    with tempfile.TemporaryDirectory(prefix="lrbench-") as folder:
        root = Path(folder) / layout.RUNS
        unpack(files, Path(folder), layout.RUNS)
        collection = collect(root)
        for path, reason in collection.problems:
            return _damaged(path.relative_to(folder), reason)
        return {
            layout.TABLE: choice.markdown(collection).encode(),
            layout.CSV: render(collection, "csv").encode(),
        }


def unpack(files: dict[str, bytes], folder: Path, part: str) -> None:
    """Write those of `files` that lie in `part` below `folder`."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        if name.startswith(f"{part}/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _refuse_changed_settings(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Refuse runs whose fingerprint would no longer be that of their configuration."""
    for path, data in before.items():
        if path.endswith("/config.json"):
            original, stripped = relevant(json.loads(data)), relevant(json.loads(after[path]))
            if original != stripped:
                raise UserError(
                    f"--anonymous: '{path}' names a folder, an address or a person in"
                    f" {', '.join(differing_keys(original, stripped))[:200]}\n"
                    "that is in its fingerprint and cannot be taken out; give files by relative"
                    " paths and train again, or leave those runs out with --rows and --columns"
                )


def _damaged(path: Path, reason: str) -> dict[str, bytes]:
    raise UserError(f"a run of the table cannot be used: {path}: {reason}")


def _manifest(
    files: dict[str, bytes],
    choice: TableChoice,
    found: Contents,
    choose: tuple[str, ...],
    anonymous: bool,
) -> dict[str, Any]:
    here = environment()
    return {
        "kind": layout.KIND,
        "schema": layout.SCHEMA,
        "choice": choice.as_json(),
        "anonymous": anonymous,
        "commands": _commands(choice, choose, anonymous),
        "versions": {name: here[name] for name in VERSIONS},
        "plugins": sorted(plugins_of(found.results)),
        "without_checkpoint": found.without_checkpoint,
        "files": {
            path: {"sha256": sha256(data), "bytes": len(data)}
            for path, data in sorted(files.items())
        },
    }


def _commands(choice: TableChoice, choose: tuple[str, ...], anonymous: bool) -> dict[str, str]:
    """The commands that make the runs, and from them this bundle."""
    options = ["--table", choice.name] if choice.table else []
    for flag, values in (("--rows", choice.rows), ("--columns", choice.columns)):
        options += [flag, ",".join(values)] if values else []
    chosen = ["--fingerprint", ",".join(choose)] if choose else []
    last = ["--rule", choice.rule, *chosen, *(["--anonymous"] if anonymous else [])]
    commands = {"bundle": shlex.join(["lrbench", "bundle", *options, *last])}
    if choice.table:
        commands["runs"] = shlex.join(["lrbench", "sweep", *options])
    return commands


def _output_folders(found: Contents) -> list[str]:
    """Folders that runs were written to; a plain word such as 'outputs' tells nothing."""
    named = {str(result["config"].get("output_dir", "")) for result in found.results.values()}
    return sorted(place for place in named if "/" in place)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"
