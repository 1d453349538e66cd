"""Downloads from a server of our own that can do everything wrong."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.downloads import Download, fetch

CONTENT = bytes(range(256)) * 1000
WANTED = Download("file.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Server(BaseHTTPRequestHandler):
    """What it does is the first part of the address; what it was asked for is in `asked`."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        how, wanted = self.path.split("/")[1], self.headers["Range"]
        self.asked.append((how, wanted))
        if how == "missing" or (how == "no_such_range" and wanted):
            return self.send_error(404 if how == "missing" else 416)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if how in ("ranges", "drops", "stuck", "other_ranges") and wanted:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        elif how == "wrong_range" and wanted:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start + 1}-{len(CONTENT) - 1}/*")
            start += 1
        else:
            self.send_response(200)
            start = 0
        body = self.body(how, start)
        if how in ("broken", "drops", "stuck"):  # promises what it does not keep
            self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(body)
        return None

    def body(self, how: str, start: int) -> bytes:
        return {
            "short": CONTENT[:-1],
            "long": CONTENT + b"x",
            "other": bytes(len(CONTENT)),
            "other_ranges": bytes(len(CONTENT) - start),
            "broken": CONTENT[:70_000],
            "drops": CONTENT[start : start + 100_000],
            "stuck": CONTENT[start:70_000],
        }.get(how, CONTENT[start:])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Server.asked.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Server) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def get(folder: Path, *mirrors: str) -> tuple[bool, list[str]]:
    said: list[str] = []
    return fetch(WANTED, folder, mirrors, said.append), said


def test_a_file_is_downloaded_whole_and_once(server: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert get(folder, f"{server}/good") == (True, [f"{server}/good/file.gz (256,000 bytes)"])
    assert (folder / "file.gz").read_bytes() == CONTENT
    assert get(folder, f"{server}/missing") == (False, [])
    assert [path.name for path in folder.iterdir()] == ["file.gz"]


def test_what_is_there_but_damaged_is_replaced(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(CONTENT[:9])
    assert get(tmp_path, f"{server}/good")[0]
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "difference"),
    [
        (CONTENT[:-1], "it has 255,999 bytes for 256,000"),
        (bytes(len(CONTENT)), "its sha256 begins with"),
    ],
)
def test_a_refusal_says_that_what_is_there_is_another_file(
    server: str, tmp_path: Path, content: bytes, difference: str
) -> None:
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(UserError, match=f"not the released file: {difference}"):
        get(tmp_path, f"{server}/missing")
    assert (tmp_path / "file.gz").read_bytes() == content


def test_a_file_address_and_a_second_mirror(server: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file.gz").write_bytes(CONTENT)
    new, said = get(tmp_path / "to", f"{server}/other", source.as_uri())
    assert new and len(said) == 2
    assert (tmp_path / "to" / "file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("missing", "HTTP 404"),
        ("short", "ends after 255,999 of 256,000 bytes"),
        ("long", "sends more than 256,000 bytes"),
        ("other", "another file: its sha256"),
        ("broken", "70,000"),
    ],
)
def test_a_wrong_file_is_never_kept(server: str, tmp_path: Path, how: str, why: str) -> None:
    (tmp_path / "file.gz").write_bytes(b"old")
    with pytest.raises(UserError) as error:
        get(tmp_path, f"{server}/{how}")
    reported = str(error.value)
    assert why in reported and f"{server}/{how}" in reported and "--mirror" in reported
    assert len(reported.splitlines()) <= 6
    assert (tmp_path / "file.gz").read_bytes() == b"old"
    kept = {"short": 255_999, "broken": 70_000}.get(how, 0)  # as far as it came, to go on from
    assert sum(path.stat().st_size for path in tmp_path.glob(".*")) == kept
    assert len(list(tmp_path.iterdir())) == (2 if kept else 1)
    assert (f"{kept:,} bytes of it are kept" in reported) == bool(kept)


@pytest.mark.parametrize("mirror", ["http://127.0.0.1:9", "ftp://nobody", "nonsense", "file:///no"])
def test_no_answer_is_reported(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(UserError, match="could not be downloaded") as error:
        get(tmp_path, mirror)
    assert mirror in str(error.value)
    assert list(tmp_path.iterdir()) == []


def part_of(folder: Path, content: bytes) -> Path:
    """Put there what a transfer that broke off has left."""
    path = folder / f".file.gz.{WANTED.sha256[:12]}.part"
    path.write_bytes(content)
    return path


def test_what_broke_off_is_continued_at_once_while_bytes_come(server: str, tmp_path: Path) -> None:
    assert get(tmp_path, f"{server}/drops")[0]
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    ranges = [None, "bytes=100000-", "bytes=200000-"]
    assert Server.asked == [("drops", wanted) for wanted in ranges]
    assert [path.name for path in tmp_path.iterdir()] == ["file.gz"]


def test_another_mirror_and_another_time_continue(server: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="70,000 bytes of it are kept; the same command goes on"):
        get(tmp_path, f"{server}/stuck")
    new, said = get(tmp_path, f"{server}/missing", f"{server}/ranges")
    assert new and said[1] == f"{server}/ranges/file.gz (256,000 bytes, 70,000 of them here)"
    assert Server.asked[-1] == ("ranges", "bytes=70000-")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize("how", ["good", "no_such_range", "wrong_range"])
def test_a_server_that_knows_no_ranges_starts_again(server: str, tmp_path: Path, how: str) -> None:
    part_of(tmp_path, CONTENT[:70_000])
    assert get(tmp_path, f"{server}/{how}")[0]
    assert Server.asked[0] == (how, "bytes=70000-")
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.gz"]


@pytest.mark.parametrize("damaged", [bytes(70_000), bytes(256_000), CONTENT + b"x"])
def test_a_damaged_beginning_is_found_and_fetched_anew(
    server: str, tmp_path: Path, damaged: bytes
) -> None:
    part_of(tmp_path, damaged)
    assert get(tmp_path, f"{server}/ranges")[0]
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert Server.asked[-1] == ("ranges", None)


def test_a_mirror_that_continues_wrongly_leaves_nothing(server: str, tmp_path: Path) -> None:
    part_of(tmp_path, CONTENT[:70_000])
    with pytest.raises(UserError, match="sends another file"):
        get(tmp_path, f"{server}/other_ranges")
    assert list(tmp_path.iterdir()) == []


def test_a_whole_part_needs_no_server(tmp_path: Path) -> None:
    part_of(tmp_path, CONTENT)
    assert get(tmp_path, "http://127.0.0.1:9")[0]
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


def test_the_part_of_another_version_is_left_alone(server: str, tmp_path: Path) -> None:
    other = tmp_path / ".file.gz.000000000000.part"
    other.write_bytes(bytes(9))
    assert get(tmp_path, f"{server}/ranges")[0]
    assert Server.asked == [("ranges", None)] and other.read_bytes() == bytes(9)


def test_progress_counts_what_is_still_to_come(server: str, tmp_path: Path) -> None:
    part_of(tmp_path, CONTENT[:70_000])
    left: list[int] = []
    fetch(WANTED, tmp_path, [f"{server}/ranges"], lambda text: None, left.append)
    assert left == sorted(left, reverse=True) and left[-1] == 0
    assert 0 < left[0] < len(CONTENT) - 70_000


def test_being_offline_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(*_: object, **__: object) -> None:
        raise urllib.error.URLError(socket.gaierror(-2, "Name or service not known"))

    monkeypatch.setattr(urllib.request, "urlopen", no_name)
    with pytest.raises(
        UserError, match="could not be downloaded: this machine seems to be offline"
    ):
        get(tmp_path, "https://one.example", "https://two.example")
    with pytest.raises(UserError) as error:
        get(tmp_path, "https://one.example", "nonsense")
    assert "seems to be offline" not in str(error.value)  # something else is wrong as well


def test_two_at_once_download_it_once(server: str, tmp_path: Path) -> None:
    """The second waits for the first and finds its file."""
    part = part_of(tmp_path, CONTENT[:70_000])
    reported = threading.Event()
    found: list[bool] = []

    def second() -> None:
        found.append(fetch(WANTED, tmp_path, [f"{server}/missing"], lambda text: reported.set()))

    with open(part, "ab") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        thread = threading.Thread(target=second)
        thread.start()
        assert reported.wait(10)
        first.write(CONTENT[70_000:])
        first.flush()
        part.rename(tmp_path / "file.gz")
    thread.join(10)
    assert found == [False] and Server.asked == []
    assert [path.name for path in tmp_path.iterdir()] == ["file.gz"]


def test_a_folder_that_cannot_be_made_is_reported(server: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(UserError, match=r"cannot be written: .*\nname .* LRBENCH_DATA"):
        get(tmp_path / "taken" / "in", f"{server}/good")


def test_an_error_without_words_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*arguments: object, **named: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("urllib.request.urlopen", silent)
    with pytest.raises(UserError, match="TimeoutError"):
        get(tmp_path, "http://127.0.0.1:9")
