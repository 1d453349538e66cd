"""A split on disk is whole, or an error that says how to make it again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus import storage
from lrbench.tasks.corpus.storage import export, read, write
from lrbench.tasks.corpus.strings import Strings

from .conftest import ROWS, strings

FILES = ("tokens.npy", "offsets.npy", "labels.npy", "split.json")


def same(one: Strings, other: Strings) -> bool:
    arrays = ("tokens", "offsets", "labels")
    return (one.vocabulary, one.class_names, one.sides, one.made) == (
        other.vocabulary,
        other.class_names,
        other.sides,
        other.made,
    ) and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy" / "train"
    write(folder, strings(ROWS, seed=3, settings={"lengths": [1, 5]}))
    return folder


@pytest.mark.parametrize("sides", [1, 2])
def test_what_was_written_is_read(sides: int, tmp_path: Path) -> None:
    given = strings(ROWS, sides, seed=3)
    write(tmp_path / "toy" / "train", given)
    there = read(tmp_path / "toy" / "train")
    assert same(there, given)
    assert isinstance(there.tokens.base, np.memmap)
    assert sorted(os.listdir(tmp_path / "toy" / "train")) == sorted(FILES)
    assert os.listdir(tmp_path / "toy") == ["train"]


def test_another_takes_its_place(folder: Path) -> None:
    write(folder, strings(ROWS[:2]))
    assert same(read(folder), strings(ROWS[:2]))
    assert os.listdir(folder.parent) == ["train"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_reported(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    for length in [*range(0, len(whole) - 1, 7), len(whole) - 2]:
        (folder / name).write_bytes(whole[:length])
        with pytest.raises(UserError) as raised:
            read(folder)
        assert str(folder / name) in str(raised.value)
        assert "lrbench data make toy --splits train" in str(raised.value)
        assert len(str(raised.value).splitlines()) <= 6


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_reported(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    kept = read(folder)
    harmless = 0
    for place in range(0, len(whole), 5):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (folder / name).write_bytes(flipped)
        try:
            there = read(folder)
        except UserError:
            continue
        assert name == "split.json" and same(there, kept)  # white space between its words
        harmless += 1
    assert harmless < len(whole) / 10


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_reported(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} cannot be used: No such file"):
        read(folder)


@pytest.mark.parametrize("text", ["[1]", "null", '{"check": ""}', "\xff", "[" * 100_000])
def test_another_json_is_reported(text: str, folder: Path) -> None:
    (folder / "split.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"split\.json cannot be used"):
        read(folder)


def test_another_schema_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SCHEMA", 2)
    with pytest.raises(UserError, match="schema 1, not 2"):
        read(folder)


def test_a_split_knows_its_place(tmp_path: Path) -> None:
    toy = tmp_path / "toy"
    for split, rows in (("train", ROWS), ("dev", ROWS[::-1])):
        write(toy / split, strings(rows, corpus="toy", split=split, seed=3))
    kept = {split: read(toy / split) for split in ("train", "dev")}
    (toy / "train").rename(toy / "aside")
    (toy / "dev").rename(toy / "train")
    (toy / "aside").rename(toy / "dev")
    for split, other in (("train", "dev"), ("dev", "train")):
        with pytest.raises(UserError) as raised:
            read(toy / split)
        text = str(raised.value)
        assert f"{toy / split} cannot be used: it should be split '{split}' of toy" in text
        assert f"holds split '{other}' of toy" in text and len(text.splitlines()) == 2
        assert text.endswith("lrbench data make toy --seed 3")
    (toy / "dev").rename(toy / "aside")
    (toy / "train").rename(toy / "dev")
    (toy / "aside").rename(toy / "train")
    assert all(same(read(toy / split), one) for split, one in kept.items())


def test_a_split_of_another_corpus_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "toy" / "dev", strings(ROWS, corpus="toy", split="dev"))
    (tmp_path / "toy").rename(tmp_path / "game")
    with pytest.raises(UserError, match="split 'dev' of game, but holds split 'dev' of toy"):
        read(tmp_path / "game" / "dev")


def test_what_does_not_say_its_name_may_lie_anywhere(tmp_path: Path) -> None:
    """What was stored before splits told their names has to be readable."""
    write(tmp_path / "toy" / "dev", strings(ROWS))
    (tmp_path / "toy" / "dev").rename(tmp_path / "toy" / "test")
    assert same(read(tmp_path / "toy" / "test"), strings(ROWS))


@pytest.mark.parametrize("name", FILES[:3])
def test_an_array_of_another_split_of_that_shape_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path / "toy" / "dev", strings([[0, 1, 2], [3]]))
    write(tmp_path / "toy" / "test", strings([[3], [2, 1, 0]]))
    labels = np.load(tmp_path / "toy" / "test" / "labels.npy") + np.uint8(1)
    np.save(tmp_path / "toy" / "test" / "labels.npy", labels)
    (tmp_path / "toy" / "test" / name).rename(tmp_path / "toy" / "dev" / name)
    with pytest.raises(UserError, match=rf"{name} cannot be used: its sha256 is not the one"):
        read(tmp_path / "toy" / "dev")


@pytest.mark.parametrize("call", range(6))
def test_a_full_disk_spoils_nothing(
    call: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))

    def fsync(descriptor: int) -> None:
        if next(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        write(folder, strings(ROWS[:3]))
    # the last of them is the sync of the folder above, when the new split is already there
    assert same(read(folder), strings(ROWS[:3]) if call == 5 else kept())
    assert os.listdir(folder.parent) == ["train"]


def kept() -> Strings:
    return strings(ROWS, seed=3, settings={"lengths": [1, 5]})


def test_lines_and_sums(single: Strings, pairs: Strings, tmp_path: Path) -> None:
    written = export([("one", single), ("two", pairs)], tmp_path / "text")
    assert [path.name for path in written] == ["one.jsonl", "two.jsonl"]
    lines = [json.loads(line) for line in written[0].read_text().splitlines()]
    assert lines[:2] == [{"tokens": "a b c", "label": "no"}, {"tokens": "d", "label": "yes"}]
    assert len(lines) == 6
    lines = [json.loads(line) for line in written[1].read_text().splitlines()]
    assert lines[2] == {"left": "a", "right": "d c b a d", "label": "both"}
    for path in written:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.with_name(f"{path.name}.sha256").read_text() == f"{digest}  {path.name}\n"
    assert len(list((tmp_path / "text").iterdir())) == 4


def test_a_place_that_cannot_be_written_is_reported(single: Strings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        export([("one", single)], tmp_path / "file")
