"""The layout of a bundle, and the rules for its manifest."""

from __future__ import annotations

import json
import re
from typing import Any

from lrbench.errors import UserError

SCHEMA = 1
KIND = "lrbench bundle"
TOP = "lrbench-bundle"  # every file of an archive is below a folder of this name

MANIFEST = "manifest.json"
TABLE = "table.md"
CSV = "runs.csv"
STRINGS = "strings.json"  # hashes of the data; of a corpus also its first rows
RUNS = "runs"  # as below an output folder; of each run the weights of one checkpoint
PLUGINS = "plugins"  # the source of the user's own models and tasks

SHA256 = re.compile(r"[0-9a-f]{64}")


def check_manifest(manifest: Any) -> None:
    """Raise UserError unless this is a manifest that this version of lrbench reads."""
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise UserError(f"{MANIFEST} is not that of a bundle made by lrbench bundle")
    schema = manifest.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise UserError(
            f"the bundle has schema {str(schema)[:40]}, this lrbench reads schema {SCHEMA}\n"
            "use the version of lrbench that made it"
        )
    files = manifest.get("files")
    good = isinstance(files, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("sha256"), str)
        and SHA256.fullmatch(entry["sha256"])
        for entry in files.values()
    )
    if not good:
        raise UserError(f"{MANIFEST} does not name the files with their sha256")
    if not isinstance(manifest.get("choice"), dict):
        raise UserError(f"{MANIFEST} does not say which table it is: 'choice' is missing")


def parsed(name: str, data: bytes | None) -> dict[str, Any]:
    """Return the object in a json file of a bundle. Raises UserError where there is none."""
    if data is None:
        raise UserError(f"the bundle has no {name}")
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"the bundle's {name} is not json: {str(error)[:200]}") from error
    if not isinstance(content, dict):
        raise UserError(f"the bundle's {name} holds no object")
    return content
