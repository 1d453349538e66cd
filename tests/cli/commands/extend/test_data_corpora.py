"""`lrbench data make` and `data export`, as a user calls them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lrbench.tasks import listops

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRBENCH_DATA", raising=False)


def test_made_once_read_and_written_out(lrbench: Run) -> None:
    made = lrbench("data", "make", "listops", "--splits", "len_200_300,args_10", "--seed", "3")
    assert (made.code, made.out) == (0, "data/listops: 2 splits, 2 new\n")
    assert "data/listops/len_200_300: 2,000 strings" in made.err
    strings = listops.load("len_200_300")
    assert strings.made["seed"] == 3 and len(strings) == 2_000

    again = lrbench("data", "make", "listops", "--splits", "args_10", "--seed", "3")
    assert (again.code, again.out, again.err) == (0, "data/listops: 1 split, 0 new\n", "")
    other = lrbench("data", "make", "listops", "--splits", "args_10")
    assert other.code == 1 and "seed 3, not 0" in other.err and "--force" in other.err
    assert len(other.err.splitlines()) <= 6

    ended = lrbench("data", "export", "listops", "--output", "text")
    assert (ended.code, ended.out) == (0, "text: 2 splits, each with its sha256\n")
    lines = Path("text/len_200_300.jsonl").read_bytes()
    assert json.loads(lines.splitlines()[7]) == {
        "tokens": strings.text(7),
        "label": str(strings.labels[7]),
    }
    assert hashlib.sha256(lines).hexdigest() in Path("text/len_200_300.jsonl.sha256").read_text()
    Path("data/listops/args_10/labels.npy").write_bytes(b"")
    ended = lrbench("data", "export", "listops", "--output", "text")
    assert ended.code == 1 and "lrbench data make listops --splits args_10" in ended.err


def test_mistakes_are_reported(lrbench: Run, tmp_path: Path) -> None:
    for arguments, code, why in (
        (("make", "listop"), 2, "Did you mean 'listops'?"),
        (("make", "listops", "--splits", "trian"), 1, "Did you mean 'train'?"),
        (("make", "listops", "--seed", "-1"), 2, "--seed"),
        (("export", "psmnist"), 2, "corpus 'psmnist' unknown"),
        (("export", "listops"), 1, "lrbench data make listops"),
        (("export", "listops", "--splits", "dev"), 1, "there is no split 'dev'"),
    ):
        ended = lrbench("data", *arguments)
        assert (ended.code, ended.out) == (code, ""), arguments
        assert why in ended.err and "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_the_same_strings_in_a_process_without_torch(
    without_torch: Callable[..., tuple[list[int], str]], lrbench: Run
) -> None:
    arguments = ["data", "make", "listops", "--splits", "args_iid"]
    codes, out = without_torch([arguments, arguments])
    assert codes == [0, 0] and out.splitlines()[-1] == "data/listops: 1 split, 0 new"
    first = Path("data/listops/args_iid/tokens.npy").read_bytes()
    assert lrbench(*arguments, "--force").out == "data/listops: 1 split, 1 new\n"
    assert Path("data/listops/args_iid/tokens.npy").read_bytes() == first


def test_a_bar_on_a_terminal(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr("lrbench.console.messages", lambda: console)
    monkeypatch.setattr("lrbench.console.interactive", lambda: True)
    assert lrbench("data", "make", "listops", "--splits", "args_10").code == 0
    assert "listops/args_10" in screen.getvalue() and "2000/2000" in screen.getvalue()
