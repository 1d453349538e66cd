"""Files that a command writes where its user said."""

from __future__ import annotations

import os
from pathlib import Path

from lrbench.errors import UserError

ADVICE = "name a file in a folder that exists and that you may write to"


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; UserError where that cannot be done."""
    from lrbench.runs.folder.files import write_bytes

    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a terminal cannot be replaced
        else:
            place = path.resolve()
            write_bytes(place, content)
    except OSError as error:
        raise unwritable(path, error) from error


def check_place(path: Path) -> None:
    """Raise UserError where a file cannot be written, before the work that fills it is done."""
    folder = path.absolute().parent
    if path.is_dir():
        reason = "it is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder '{path.parent}'"
    elif not os.access(path if path.exists() and not path.is_file() else folder, os.W_OK):
        reason = "permission denied"
    else:
        return
    raise UserError(f"cannot write '{path}': {reason}\n{ADVICE}")


def unwritable(path: Path, error: OSError) -> UserError:
    """Return the error for a file or folder that cannot be written."""
    return UserError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}\n{ADVICE}")
