"""Nothing half-written is ever read: kills, full disks and damage leave the old file."""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, which fails like a full disk (EFBIG for ENOSPC)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.mark.slow
@given(obj=st.dictionaries(st.text(max_size=3), JSON))
def test_json_round_trip_keeps_values_and_order(
    tmp_path_factory: pytest.TempPathFactory, obj: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    files.write_json(path, obj, durable=False)
    back = files.read_json(path)
    assert back == obj
    assert list(back) == list(obj)


def test_nan_and_infinities_become_null(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": [math.nan, {"b": math.inf}], "c": (-math.inf, 1.5)})
    assert files.read_json(path) == {"a": [None, {"b": None}], "c": [None, 1.5]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b'{"a": 1', "not JSON, or cut short"),
        (b"[1, 2]", "a JSON list, not an object"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a": 1}\x00\x00', "not JSON"),
    ],
)
def test_unusable_json_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=reason) as caught:
        files.read_json(path)
    assert str(path) in str(caught.value)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    files.write_json(path, {"value": 0.25, "list": [1, 2], "name": "é"})
    data = path.read_bytes().rstrip()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(UnreadableFile):
            files.read_json(path)


def test_missing_file_and_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="no such file"):
        files.read_json(tmp_path / "none.json")
    with pytest.raises(UnreadableFile, match="is a directory"):
        files.read_json(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(UnreadableFile, match="permission denied"):
        files.read_json(path)


def test_full_disk_keeps_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    files.write_bytes(path, b"old")
    with largest_file(1000), pytest.raises(OSError) as caught:
        files.write_bytes(path, bytes(100_000))
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


SMALL_DISK = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
cd "$1"
exec "$2" -c '
import errno, os
from pathlib import Path
from lrbench.runs.folder import files
def fails(action):
    try: action()
    except OSError as error: assert error.errno == errno.ENOSPC, error
    else: raise AssertionError("no error on a full disk")
path, log = Path("result.json"), Path("metrics.jsonl")
files.write_json(path, {"old": True})
fails(lambda: files.write_json(path, {"new": "x" * 200_000}))
assert files.read_json(path) == {"old": True}
step = 0
def fill():
    global step
    while True:
        files.append_line(log, {"step": step, "text": "x" * 1000})
        step += 1
fails(fill)
assert [line["step"] for line in files.read_lines(log)] == list(range(step)), step
assert log.read_bytes().endswith(b"}\\n")
assert sorted(os.listdir()) == ["metrics.jsonl", "result.json"]
print("survived", step)'
"""


def test_full_disk_for_real(tmp_path: Path) -> None:
    command = ["unshare", "-Urm", "sh", "-c", SMALL_DISK, "sh", str(tmp_path), sys.executable]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("no unshare(1): cannot mount a small file system")
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip(f"may not mount a small file system: {done.stderr.strip()}")
    assert done.stdout.startswith("survived"), done.stderr


def test_unwritable_content_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "a.json", {"a": object()})
    with pytest.raises(TypeError):
        files.write_bytes(tmp_path / "a.bin", "text")  # type: ignore[arg-type]
    assert names(tmp_path) == []


def test_interrupt_before_the_rename_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*paths: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(path, b"new")
    assert names(tmp_path) == ["a.bin"]
    assert path.read_bytes() == b"old"


WRITER = """
import sys
from pathlib import Path
from lrbench.runs.folder import files
path, count = Path(sys.argv[1]), 0
while True:
    count += 1
    files.write_json(path, {"count": count, "twice": 2 * count, "padding": "x" * 100_000})
    if count == 1:
        print("ready", flush=True)
"""


def test_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for _ in range(50):  # a reader never sees a part either
            obj = files.read_json(path)
            assert obj["twice"] == 2 * obj["count"]
        child.send_signal(signal.SIGKILL)
    files.sweep_temporary(tmp_path)
    assert names(tmp_path) == ["a.json"]
    assert len(files.read_json(path)["padding"]) == 100_000


def test_sweep_removes_what_the_dead_left_only(tmp_path: Path) -> None:
    here = files._host_tag()
    elsewhere = "ffffff" if here != "ffffff" else "000000"
    dead, mine = dead_pid(), os.getpid()
    left = tmp_path / f".a.json.{dead}.{here}0123abcd.tmp"
    before_me = tmp_path / f".a.json.{mine}.{here}89abcdef.tmp"  # by an earlier process of my id
    foreign_old = tmp_path / f".a.json.{mine}.{elsewhere}01234567.tmp"
    kept = [
        tmp_path / f".a.json.{mine}.{here}01234567.tmp",
        tmp_path / f".a.json.{dead}.{elsewhere}01234567.tmp",  # another machine's, in use
        tmp_path / "notes.tmp",
        tmp_path / ".somebody-elses.tmp",
    ]
    for path in [left, before_me, foreign_old, *kept]:
        path.touch()
    for path in (before_me, foreign_old):
        os.utime(path, (time.time() - 10**7,) * 2)
    assert files.sweep_temporary(tmp_path, "json") == []
    assert files.sweep_temporary(tmp_path, "b.json") == []
    assert set(files.sweep_temporary(tmp_path, "a.json")) == {left, before_me, foreign_old}
    for path in (left, before_me, foreign_old):
        path.touch()
        os.utime(path, (time.time() - 10**7,) * 2)
    assert set(files.sweep_temporary(tmp_path)) == {left, before_me, foreign_old}
    assert names(tmp_path) == sorted(path.name for path in kept)


def test_write_bytes_makes_the_temporary_name_that_sweep_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(os, "replace", lambda source, target: seen.append(source.name))
    files.write_bytes(tmp_path / "best.pt", b"")
    match = files.TEMPORARY.fullmatch(seen[0])
    assert match
    assert (int(match["pid"]), match["host"]) == (os.getpid(), files._host_tag())


def test_lines_round_trip_and_missing_log_is_empty(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    assert files.read_lines(log) == []
    for step in range(3):
        files.append_line(log, {"step": step, "loss": math.nan, "text": "two\nlines"})
    expected = [{"step": step, "loss": None, "text": "two\nlines"} for step in range(3)]
    assert files.read_lines(log) == expected


def test_torn_last_line_at_every_byte(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        files.append_line(log, {"step": step})
    data = log.read_bytes()
    start = data.index(b"\n") + 1
    for end in range(start, len(data) + 1):
        log.write_bytes(data[:end])
        whole = [1, 2] if end >= len(data) - 1 else [1]  # only its newline may be missing
        assert [line["step"] for line in files.read_lines(log)] == whole
        files.append_line(log, {"step": 3})
        assert [line["step"] for line in files.read_lines(log)] == [*whole, 3]


def test_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_bytes(b'{"step": 1}\n{"st\x00p": \n{"step": 3}\n')
    with pytest.raises(UnreadableFile, match="line 2 is not a JSON object"):
        files.read_lines(log)


def test_newest_lines_pass_over_what_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert list(files.newest_lines(path)) == []
    path.write_text('{"step": 1}\n{"step": "2"}\n\n[3]\n{"step": NaN}\nx\n{"step": 4}\n{"ste')
    assert list(files.newest_lines(path)) == [{"step": 4}, {"step": 1}]


def test_appending_on_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    files.append_line(log, {"step": 1})
    with largest_file(50), pytest.raises(OSError):
        files.append_line(log, {"step": 2, "text": "x" * 100})
    assert log.read_bytes() == b'{"step": 1}\n'


def test_keep_lines_until(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    assert files.keep_lines_until(log, 5) == 0
    assert not log.exists()
    lines = [b'{"step":   1}', b'{"step": 2, "x": 1}', b'{"no": 1}', b"{torn", b'{"step": 3}']
    log.write_bytes(b"\n".join([*lines, b'{"step'])[:-1])
    assert files.keep_lines_until(log, 2) == 3
    assert log.read_bytes() == b'{"step":   1}\n{"step": 2, "x": 1}\n'
    assert files.keep_lines_until(log, 0) == 0
    assert log.read_bytes() == b""
