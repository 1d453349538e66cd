"""The command line called as a user calls it: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from lrbench.cli import main

# Run each command line in turn; the last line of stdout says how it went.
EACH = """
import json, sys
from lrbench.cli import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["lrbench", *words]
    try:
        main()
        codes.append(0)
    except SystemExit as left:
        codes.append(left.code or 0)
print()
print(json.dumps({"codes": codes, "torch": "torch" in sys.modules}))
"""


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def lrbench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Run `lrbench WORDS` in this process, 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lrbench", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        out, err = capsys.readouterr()
        return Ended(int(str(code or 0)), out, err)

    return run


@pytest.fixture
def without_torch() -> Callable[[Sequence[Sequence[str]]], tuple[list[int], str]]:
    """Run command lines in one fresh process that must not import torch: exit codes and stdout."""

    def run(lines: Sequence[Sequence[str]]) -> tuple[list[int], str]:
        ended = subprocess.run(
            [sys.executable, "-c", EACH, json.dumps(lines)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "80"},
        )
        assert ended.stdout, ended.stderr
        out, _, last = ended.stdout.rstrip("\n").rpartition("\n")
        said = json.loads(last)
        assert not said["torch"], "torch was imported"
        return said["codes"], out

    return run
