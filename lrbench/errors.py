"""Errors that the user can mend: a few lines each, without a traceback."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Collection, Iterable

MANY = 12  # more names than this are left to the command that lists them
LISTS = {
    "model": "lrbench models",
    "encoder": "lrbench models",
    "task": "lrbench tasks",
    "protocol": "lrbench protocols",
    "table": "lrbench tables",
}


class UserError(Exception):
    """Something the user asked for cannot be done.

    The message names the thing, the value, what is allowed and the fix, in at most six lines.
    `exit_code` is 1 for a wrong override or a failed run and 2 for wrong usage of a command.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NoData(UserError):
    """The data of a task are not on this machine, and only the user can put them there."""


class Interrupted(Exception):
    """A signal asked the program to stop; everything needed to resume is on disk."""


def where_written(error: BaseException) -> str:
    """Return " (mine.py, line 12)", the last place in a user's own file; "" where there is none."""
    others = [os.path.dirname(__file__), sys.prefix, sys.base_prefix]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        foreign = frame.filename.startswith("<") or any(
            frame.filename.startswith(folder + os.sep) for folder in others
        )
        if not foreign:
            return f" ({os.path.basename(frame.filename)}, line {frame.lineno})"
    return ""


def unknown(
    kind: str, name: str, known: Iterable[str], exit_code: int = 1, fix: str = ""
) -> UserError:
    """Return the error for a misspelt name: what was asked, the nearest match, the known names.

    `fix` is a last line for a name that may be right and is not there yet.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    lines = [f"{kind} '{name}' unknown.{hint}", listed(kind, names), fix]
    return UserError("\n".join(filter(None, lines)), exit_code)


def listed(kind: str, names: Collection[str]) -> str:
    """Return the line of the known names, or the command that lists them where they are many."""
    if len(names) > MANY and kind in LISTS:
        return f"`{LISTS[kind]}` lists all {len(names)}"
    return f"known: {', '.join(names)}"


def install(extra: str) -> str:
    """Return the command that installs an extra, in a checkout and elsewhere."""
    return (
        f"pip install 'lrbench-extrapolation[{extra}]'"
        f" (in the checkout: pip install -c constraints.txt -e '.[{extra}]')"
    )


def missing(what: str, extra: str, instead: str = "") -> UserError:
    """Return the error for a package that an extra brings: what wants it, and how to get it.

    `instead` is a last line: what can be done without.
    """
    lines = [f"{what} is not installed", f"fix: {install(extra)}", instead]
    return UserError("\n".join(filter(None, lines)))
