"""Promises of file systems: kept where there are any, done without where there are none."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from lrbench.disk import below, lock, may_write, sync_folder, unlisted
from lrbench.errors import UserError


def refuse(code: int) -> object:
    def refusing(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    return refusing


def test_a_folder_that_cannot_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", refuse(errno.EINVAL))
    sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync_folder(tmp_path)


def test_a_lock_that_is_taken_is_waited_for(tmp_path: Path) -> None:
    path, said, reported = tmp_path / ".lock", threading.Event(), []
    with open(path, "wb") as first, open(path, "wb") as second:
        assert lock(first.fileno(), reported.append, "taken") and reported == []

        def give_back() -> None:
            assert said.wait(60)
            fcntl.flock(first, fcntl.LOCK_UN)

        def tell(line: str) -> None:
            reported.append(line)
            said.set()

        owner = threading.Thread(target=give_back)
        owner.start()
        assert lock(second.fileno(), tell, "a: another makes it")
        owner.join()
        assert reported == ["a: another makes it; waiting for that"]
        with pytest.raises(BlockingIOError):
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_no_locks_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(code))
    with open(tmp_path / ".lock", "wb") as file:
        assert not lock(file.fileno(), lambda line: None, "taken")


def test_other_failures_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(errno.EBADF))
    with open(tmp_path / ".lock", "wb") as file, pytest.raises(OSError):
        lock(file.fileno(), lambda line: None, "taken")


def test_files_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/x.json", "a/c/x.json", "a/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
    found = below(tmp_path, "x.js*")
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a/c/x.json", "b/x.json"]
    assert below(tmp_path / "nowhere", "*") == []
    with pytest.raises(UserError, match="the root of the file system"):
        below(Path("/"), "x.json")


def test_folders_that_may_not_be_read_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusals are made up: root may do everything."""
    closed, gone = tmp_path / "a" / "closed", tmp_path / "gone"
    for folder in (closed, gone):
        folder.mkdir(parents=True)
    assert unlisted(tmp_path) == {} and may_write(closed / "new" / "newer")
    scan, errors = os.scandir, {str(closed): errno.EACCES, str(gone): errno.ENOENT}

    def refusing(path: str) -> object:
        if number := errors.get(str(path)):
            raise OSError(number, os.strerror(number), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != closed)
    assert unlisted(tmp_path) == {closed: "permission denied"}
    assert not may_write(closed) and not may_write(closed / "new" / "newer")
    assert may_write(tmp_path / "new")
