"""What ends a program: mistakes and sick disks in a few lines, our own bugs with a traceback."""

from __future__ import annotations

import errno
import os
import sys

import pytest
import typer

from lrbench.cli.guard import guarded


def _ending(number: int, capfd: pytest.CaptureFixture[str]) -> str:
    def body() -> None:
        raise OSError(number, os.strerror(number), "runs/.leases")

    with pytest.raises(SystemExit) as end:
        guarded(body)
    assert end.value.code == 1
    return capfd.readouterr().err


@pytest.mark.parametrize("name", ["EIO", "EROFS", "EACCES", "ENOTDIR", "EEXIST", "ENOSPC", "ELOOP"])
def test_a_file_that_cannot_be_used_is_named_without_a_traceback(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    number = getattr(errno, name)
    told = _ending(number, capfd).splitlines()
    assert told[0] == f"lrbench: runs/.leases: {os.strerror(number).lower()}"
    assert len(told) == 2


@pytest.mark.parametrize("code", [0, 3, None])
def test_a_plug_in_does_not_end_a_command_in_silence(
    code: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        guarded(lambda: sys.exit(code))
    assert end.value.code == 1
    told = capfd.readouterr().err
    assert f"test_guard.py:{told.split('test_guard.py:')[1].split()[0]} called" in told
    assert f"sys.exit({code!r}): the command ended there, unfinished" in told


def test_the_command_line_ends_as_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        guarded(lambda: typer.Typer(callback=lambda: None)(["--help"]))
    assert end.value.code == 0
    assert "unfinished" not in capfd.readouterr().err


def test_a_file_that_ought_to_be_there_is_a_bug(capfd: pytest.CaptureFixture[str]) -> None:
    assert "Traceback" in _ending(errno.ENOENT, capfd)


def test_a_name_too_long_is_told_in_two_short_lines(capfd: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        os.stat("a" * 3000)

    with pytest.raises(SystemExit) as end:
        guarded(body)
    first, second = capfd.readouterr().err.splitlines()
    assert end.value.code == 1
    assert first.startswith("lrbench: aaaa") and first.endswith("...aaaaaaaaaa: file name too long")
    assert len(first) < 250 and "mend that" in second
