"""Code and commands of the pages in docs/, as they are written there, and running them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from tests import programs

ROOT = Path(__file__).resolve().parent.parent
SHORT = ["protocol.max_steps=3", "protocol.test_size=16", "protocol.further_lengths=[]"]


def text(page: str) -> str:
    """Return a page of docs/."""
    return (ROOT / "docs" / f"{page}.md").read_text()


def write(page: str, file: str, folder: Path) -> None:
    """Write a file into `folder` that the page gives whole, after "In `FILE`"."""
    found = re.search(
        rf"[Ii]n\s`{re.escape(file)}`[^\n]*\n\n```python\n(.*?)^```", text(page), re.M | re.S
    )
    assert found, f"docs/{page}.md gives no {file}"
    (folder / file).write_text(found[1])


def commands(page: str, mark: str) -> list[list[str]]:
    """Return the words behind `lrbench` of each command of a page whose line has `mark` in it."""
    lines = re.findall(r"^    (?:LRBENCH_PLUGINS=\w+ )?lrbench (.*)$", text(page), re.M)
    found = re.findall(r"^    (.*lrbench .*)$", text(page), re.M)
    return [shlex.split(line) for line, whole in zip(lines, found, strict=True) if mark in whole]


def printed(page: str, last: str) -> list[str]:
    """Return the lines that a page prints as the end of an output whose last line has `last`."""
    blocks = [
        block.splitlines() for block in re.findall(r"^```text\n(.*?)^```", text(page), re.M | re.S)
    ]
    return next(lines for lines in blocks if last in lines[-1])


def lrbench(folder: Path, *arguments: str, plugins: str = "") -> str:
    """Run a command as a user's, in a process of its own; return what it printed."""
    ended = programs.lrbench(*arguments, cwd=folder, env={**os.environ, "LRBENCH_PLUGINS": plugins})
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
