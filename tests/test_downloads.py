"""Downloads from a server of our own that can do everything wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lrbench.downloads import Download, fetch
from lrbench.errors import UserError

CONTENT = bytes(range(256)) * 1000
WANTED = Download("file.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


class Server(BaseHTTPRequestHandler):
    """What it does is the first part of the address."""

    def do_GET(self) -> None:
        how = self.path.split("/")[1]
        if how == "missing":
            return self.send_error(404)
        body = {
            "good": CONTENT,
            "short": CONTENT[:-1],
            "long": CONTENT + b"x",
            "other": bytes(len(CONTENT)),
            "broken": CONTENT[:70_000],
        }[how]
        self.send_response(200)
        if how == "broken":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, format: str, *args: object) -> None:
        pass


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
    told = str(error.value)
    assert why in told and f"{server}/{how}" in told and "--mirror" in told
    assert len(told.splitlines()) <= 6
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file.gz": b"old"}


@pytest.mark.parametrize("mirror", ["http://127.0.0.1:9", "ftp://nobody", "nonsense", "file:///no"])
def test_no_answer_is_told(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(UserError, match="could not be downloaded") as error:
        get(tmp_path, mirror)
    assert mirror in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told(server: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(UserError, match="cannot be written"):
        get(tmp_path / "taken" / "in", f"{server}/good")
