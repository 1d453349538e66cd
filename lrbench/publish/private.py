"""A run's small files without the folders of the machine that made them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.runs.folder.environment import FOLDERS

ABSOLUTE = re.compile(r"(?<![\w.])~?/[\w.-]+/")
OUTPUT_DIR = "outputs"  # its default; where a run once lay says nothing about it
NOT_PUBLISHED = ("traceback",)  # holds the folders of an installation


def public(path: Path) -> bytes:
    """Return the content of a json or jsonl file as it may be published.

    A file that tells of no folder stays as it is, byte for byte. Raises UserError where it cannot
    be read.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".jsonl":
            lines = content.decode().splitlines(keepends=True)
            return "".join(_line(line) for line in lines).encode()
        data = json.loads(content)
        cleaned = _cleaned(data)
        return content if cleaned == data else json.dumps(cleaned, indent=2).encode() + b"\n"
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"is damaged: {error}"
        raise UserError(f"{path} cannot be published: {reason}") from error


def _line(line: str) -> str:
    """A torn last line, of a run that was killed, is left out."""
    if not line.endswith("\n"):
        return ""
    if not ABSOLUTE.search(line):
        return line
    return json.dumps(_cleaned(json.loads(line))) + "\n"


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _cleaned(item) for key, item in value.items() if key not in NOT_PUBLISHED}
        return kept | ({"output_dir": OUTPUT_DIR} if "output_dir" in value else {})
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, str) and ABSOLUTE.search(value):
        return FOLDERS.sub("", value)
    return value
