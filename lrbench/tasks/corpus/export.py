"""Splits as text for other programs: JSON lines, each file with a checksum for `sha256sum -c`."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings

SIDES = {1: ("tokens",), 2: ("left", "right")}


def export(splits: Iterable[tuple[str, Strings]], output: Path) -> list[Path]:
    """Write NAME.jsonl and NAME.jsonl.sha256 for each (name, strings); return the first of each.

    A line is {"tokens": "[MAX 5 6 ]", "label": "6"}, of a pair {"left", "right", "label"}. Files
    appear whole or not at all. Raises UserError if they cannot be written.
    """
    written = []
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, strings in splits:
            path = output / f"{name}.jsonl"
            digest = _write(path, lines(strings))
            _write(path.with_name(f"{path.name}.sha256"), [f"{digest}  {path.name}\n"])
            written.append(path)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror or error}") from error
    return written


def lines(strings: Strings) -> Iterator[str]:
    """Yield each string or pair as a line of JSON."""
    names = SIDES[strings.sides]
    for index, label in enumerate(strings.labels.tolist()):
        texts = {name: strings.text(index, side) for side, name in enumerate(names)}
        yield json.dumps({**texts, "label": strings.class_names[label]}) + "\n"


def _write(path: Path, text: Iterable[str]) -> str:
    """Write lines beside `path`, bring them to disk, rename; return their sha256."""
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            for line in text:
                digest.update(line.encode())
                file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        path.chmod(0o644)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return digest.hexdigest()
