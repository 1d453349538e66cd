"""`lrbench data fetch logic` and `listops_test`: released files, from a folder, from a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lrbench.tasks.listops import released as listops
from lrbench.tasks.logic import load
from lrbench.tasks.logic import released as logic
from lrbench.tasks.logic.generator import draw

Run = Callable[..., Any]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(shared: Path) -> Iterator[str]:
    """A server of the released files, which knows no ranges."""
    handler = partial(Quiet, directory=str(shared / "data"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRBENCH_DATA", raising=False)


def test_the_named_files_are_those_at_hand(shared: Path) -> None:
    for known, folder in ((logic, "proplogic"), (listops, "listops")):
        for file in known.FILES:
            assert file.is_at(shared / "data" / folder / file.name), file.name
        assert {file.name for file in known.FILES} == {
            path.name for path in (shared / "data" / folder).iterdir()
        }
        assert all(
            mirror.startswith("https://raw.githubusercontent.com/") for mirror in known.MIRRORS
        )


def test_logic_is_fetched_checked_and_made_into_splits(lrbench: Run, server: str) -> None:
    ended = lrbench("data", "fetch", "logic", "--mirror", f"{server}/proplogic")
    assert (ended.code, ended.out) == (
        0,
        "data/released/logic: 20 files, 20 new, each with its sha256\n"
        "data/logic_released: 15 splits, 15 new\n",
    )
    assert ended.err.count("bytes)") == 20
    assert len(load("train")) == 121_977
    again = lrbench("data", "fetch", "logic", "--mirror", "http://127.0.0.1:9")
    assert again.code == 0 and again.err == ""
    assert "20 files, 0 new" in again.out and "15 splits, 0 new" in again.out


def test_logic_from_files_that_are_there_already(lrbench: Run, shared: Path) -> None:
    """A machine without net: the files come by other means, maybe into a folder of others."""
    ended = lrbench("data", "fetch", "logic", "--folder", str(shared / "data" / "proplogic"))
    assert ended.code == 0 and "20 files, 0 new" in ended.out and "15 splits, 15 new" in ended.out
    assert not Path("data/released").exists()
    (Path("data/logic_released/dev/tokens.npy")).unlink()
    lost = lrbench("data", "make", "logic_released", "--splits", "dev")
    assert lost.code == 1 and "get the released files with: lrbench data fetch logic" in lost.err
    mended = lrbench("data", "fetch", "logic", "--folder", str(shared / "data" / "proplogic"))
    assert mended.code == 0 and "15 splits, 1 new" in mended.out


def test_what_broke_off_is_continued_by_the_same_command(lrbench: Run, shared: Path) -> None:
    source, mirror = shared / "data" / "listops" / "test_d20s.tsv", Path("mirror")
    mirror.mkdir()
    (mirror / source.name).write_bytes(source.read_bytes()[:1_000_000])
    ended = lrbench("data", "fetch", "listops_test", "--mirror", mirror.resolve().as_uri())
    assert ended.code == 1 and "ends after 1,000,000 of 2,804,179 bytes" in ended.err
    assert "1,000,000 bytes of it are kept" in ended.err and "Traceback" not in ended.err
    ended = lrbench("data", "fetch", "listops_test", "--mirror", source.parent.as_uri())
    assert (ended.code, ended.out) == (
        0,
        "data/released/listops: 1 file, 1 new, each with its sha256\n",
    )
    assert "1,000,000 of them here" in ended.err
    assert (Path("data/released/listops") / source.name).read_bytes() == source.read_bytes()


def test_ours_are_made_exported_and_never_taken_for_the_released(
    lrbench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lrbench.tasks.logic.splits.draw", lambda seed, tell: draw(seed, 2000))
    made = lrbench("data", "make", "logic", "--seed", "2")
    assert (made.code, made.out) == (0, "data/logic: 15 splits, 15 new\n")
    assert lrbench("data", "make", "logic", "--seed", "2").out.endswith("15 splits, 0 new\n")
    assert load("dev", source="made").made["seed"] == 2
    exported = lrbench("data", "export", "logic", "--splits", "test_3", "--output", "text")
    assert exported.code == 0
    first = Path("text/test_3.jsonl").read_text().splitlines()[0]
    assert first.startswith('{"left": "') and '"right": "' in first and '"label": "' in first
    missing = lrbench("data", "export", "logic_released")
    assert missing.code == 1 and "logic_released" in missing.err
