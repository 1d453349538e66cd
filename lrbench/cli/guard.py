"""The handler of errors: a few lines for a user's mistake, a traceback for a bug."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from lrbench.checks import shown
from lrbench.disk import CANNOT_WRITE, FULL, IN_THE_WAY, NO_NAME
from lrbench.errors import Interrupted, UserError

MOST_LINES = 6
LONGEST_LINE = 2000
TOLD = (*CANNOT_WRITE, *IN_THE_WAY, *NO_NAME)  # of a file that a user can do something about
COMMAND_LINE = ("lrbench", "typer", "click", "hydra", "argparse")  # modules that may end a command
HINT = "\nmend that and run the same command again; what was written before is kept"


def guarded(body: Callable[[], Any]) -> None:
    """Run `body`; turn a UserError into its message and exit code, an interruption into 130."""
    try:
        try:
            body()
        finally:
            sys.stdout.flush()  # a disk that is full shows here
    except UserError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except (Interrupted, KeyboardInterrupt) as stop:
        complain(str(stop) or "interrupted; the same command goes on where it stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)  # the reader of our stdout (head, less) has gone, as SIGPIPE would say
    except OSError as error:
        if error.filename is not None and error.errno in TOLD:
            complain(f"{shown(error.filename, 200)}: {str(error.strerror).lower()}{HINT}")
            sys.exit(1)
        if error.errno not in FULL or error.filename is not None:
            traceback.print_exc()
            sys.exit(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left would be tried again at exit
        complain(f"cannot write the output: {str(error.strerror).lower()}")
        sys.exit(1)
    except SystemExit as left:
        if (where := _others_exit(left)) is None:
            raise
        complain(f"{where} called sys.exit({left.code!r}): the command ended there, unfinished")
        sys.exit(1)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _others_exit(left: SystemExit) -> str | None:
    """Return the place that left, where it is neither ours nor the command line's: a plug-in's."""
    frame = traceback.extract_tb(left.__traceback__)[-1]
    modules = [sys.modules.get(name) for name in COMMAND_LINE]
    folders = [os.path.dirname(str(one.__file__)) for one in modules if one is not None]
    ours = any(frame.filename.startswith(folder + os.sep) for folder in folders)
    return None if ours else f"{frame.filename}:{frame.lineno}"


def complain(message: str) -> None:
    """Print a message for the user on stderr, in at most six lines of printable characters."""
    from lrbench.console import stderr

    lines = message.strip().expandtabs(2).splitlines()[:MOST_LINES]
    print("lrbench: " + "\n".join(shown(line, LONGEST_LINE) for line in lines), file=stderr())
