from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from lrbench.bundles import archive
from lrbench.bundles.archive import packed, unpacked
from lrbench.bundles.layout import TOP
from lrbench.errors import UserError

FILES = {"a.json": b"{}", "runs/sum/s0/result.json": b"x" * 5000, "runs/long/" + "n" * 150: b""}
KINDS = ("b.zip", "b.tar.gz", "b.tgz")


@pytest.mark.parametrize("name", KINDS)
def test_there_and_back_with_the_same_bytes(tmp_path: Path, name: str) -> None:
    data = packed(FILES, name)
    assert data == packed(dict(reversed(FILES.items())), name)
    (tmp_path / name).write_bytes(data)
    assert unpacked(tmp_path / name) == FILES


def test_other_tools_read_it(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(packed(FILES, "b.zip"))
    (tmp_path / "b.tgz").write_bytes(packed(FILES, "b.tgz"))
    with zipfile.ZipFile(tmp_path / "b.zip") as found:
        assert found.testzip() is None
        assert {entry.date_time for entry in found.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with tarfile.open(tmp_path / "b.tgz") as tar:
        entries = tar.getmembers()
    assert {(e.mtime, e.uid, e.uname, e.mode) for e in entries} == {(0, 0, "", 0o644)}


def test_another_ending(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.tar\.gz") as refused:
        packed(FILES, "b.rar")
    assert refused.value.exit_code == 2


BAD_NAMES = [
    f"{TOP}/../../outside",
    "/etc/outside",
    "../outside",
    f"{TOP}/./a",
    f"{TOP}//a",
    f"{TOP}/a\\..\\b",
    "C:/outside",
    "elsewhere/a",
    f"{TOP}/{'n' * 2000}",
]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "b"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as out:
            out.writestr(zipfile.ZipInfo(name), b"x")
    else:
        with tarfile.open(path, "w:gz") as out:
            out.addfile(tarfile.TarInfo(name))
    with pytest.raises(UserError, match=r"outside the bundle|not below"):
        unpacked(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_in_tar(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo(f"{TOP}/a")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "b", "w:gz") as out:
        out.addfile(entry)
    with pytest.raises(UserError, match="link or a device"):
        unpacked(tmp_path / "b")


def test_links_in_zip(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo(f"{TOP}/a")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "b", "w") as out:
        out.writestr(entry, "/etc/passwd")
    with pytest.raises(UserError, match="link or a device"):
        unpacked(tmp_path / "b")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b", "w") as out:
        out.writestr(f"{TOP}/a", "1")
        out.writestr(f"{TOP}/a", "2")
    with pytest.raises(UserError, match="twice"):
        unpacked(tmp_path / "b")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("limit", ["LARGEST", "MOST_BYTES", "MOST_FILES"])
def test_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: str) -> None:
    (tmp_path / name).write_bytes(packed(FILES | {"zeros": b"\0" * 10**6}, name))
    monkeypatch.setattr(archive, limit, 1 if limit == "MOST_FILES" else 10_000)
    with pytest.raises(UserError, match=r"too large|more than|a block of"):
        unpacked(tmp_path / name)


def test_a_size_that_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip entry that says 10 bytes and unpacks to a million."""
    data = packed({"zeros": b"\0" * 10**6}, "b.zip")
    size = (10**6).to_bytes(4, "little")
    assert data.count(size) == 2
    (tmp_path / "b").write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    with pytest.raises(UserError):
        unpacked(tmp_path / "b")


@pytest.mark.parametrize("name", KINDS)
def test_cut_short_anywhere(tmp_path: Path, name: str) -> None:
    data = packed(FILES, name)
    for length in range(0, len(data), 7):
        (tmp_path / "b").write_bytes(data[:length])
        with pytest.raises(UserError):
            unpacked(tmp_path / "b")


@pytest.mark.parametrize("name", KINDS)
def test_a_changed_byte_is_an_error_or_changes_nothing(tmp_path: Path, name: str) -> None:
    """Dates and such are no content: those may be changed. What is in the files may not."""
    data = packed(FILES, name)
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 0x55
        (tmp_path / "b").write_bytes(changed)
        try:
            found = unpacked(tmp_path / "b")
        except UserError:
            continue
        assert list(found.values()) == [FILES[name] for name in sorted(FILES)][: len(found)]


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("not at all")
    with pytest.raises(UserError, match="neither a zip nor"):
        unpacked(tmp_path / "b")
    with pytest.raises(UserError, match="cannot be read"):
        unpacked(tmp_path / "nowhere.zip")
    with pytest.raises(UserError, match="cannot be read"):
        unpacked(tmp_path)


def test_a_header_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tarfile.TarInfo(f"{TOP}/a")
    entry.pax_headers = {"comment": "c" * 50_000}
    with tarfile.open(tmp_path / "b", "w:gz", format=tarfile.PAX_FORMAT) as out:
        out.addfile(entry, io.BytesIO())
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    monkeypatch.setattr(archive, "MOST_BYTES", 20_000)
    monkeypatch.setattr(archive, "MOST_FILES", 1)
    with pytest.raises(UserError):
        unpacked(tmp_path / "b")
