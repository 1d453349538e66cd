"""Readers of the released files, against a slow reader that shares nothing with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.lra import released
from lrbench.tasks.lra.released import LONGEST, VOCABULARY
from tests.tasks.lra.conftest import EACH, PAIRS, STARS, line


def slow_rows(text: bytes) -> list[tuple[int, list[int], list[int]]]:
    """Read pairs letter by letter: (label, one document, the other)."""
    rows: list[list[list[int]]] = [[[]]]
    for byte in text:
        if byte == 10:
            rows.append([[]])
        elif byte == 9:
            rows[-1].append([])
        else:
            rows[-1][-1].append(byte)
    assert rows.pop() == [[]]
    found = []
    for fields in rows:
        label = int(float("".join(map(chr, fields[0]))))
        found.append((label, *(document[:4096] or [32] for document in fields[3:5])))
    return found


def as_rows(strings: Strings) -> list[tuple[int, list[int], list[int]]]:
    return [
        (int(strings.labels[row]), strings.row(row, 0).tolist(), strings.row(row, 1).tolist())
        for row in range(len(strings))
    ]


def test_pairs_are_what_a_slow_reader_reads(write_pairs: Callable[..., Path]) -> None:
    path = write_pairs() / "new_aan_pairs.train.tsv"
    found = released.pairs(path)
    assert (found.sides, found.class_names) == (2, ("unlinked", "linked"))
    assert as_rows(found) == slow_rows(path.read_bytes())
    assert found.labels.tolist() == [1, 0, 1, 0]
    assert bytes(found.row(1, 0)) == PAIRS[1][1]  # a quote is a letter
    assert bytes(found.row(2, 0)) == b" "
    assert (len(found.row(3, 0)), bytes(found.row(3, 1))) == (LONGEST, PAIRS[3][2])


def test_random_documents_are_read_alike(write_pairs: Callable[..., Path]) -> None:
    random = np.random.default_rng(0)
    letters = np.array([byte for byte in range(256) if byte not in (9, 10)], dtype=np.uint8)

    def document() -> bytes:
        return bytes(random.choice(letters, size=random.integers(0, 5000)))

    rows = [(random.choice([b"0.0", b"1.0"]), document(), document()) for _ in range(40)]
    path = write_pairs(rows) / "new_aan_pairs.test.tsv"
    assert as_rows(released.pairs(path)) == slow_rows(path.read_bytes())


def test_progress_is_told_in_bytes(write_pairs: Callable[..., Path]) -> None:
    path, told = write_pairs() / "new_aan_pairs.eval.tsv", []
    released.pairs(path, lambda *what: told.append(what))
    assert told == [(path.name, path.stat().st_size, path.stat().st_size)]


GOOD = line(b"1.0", b"a", b"b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + b"1.0\tid\tid\ta\n", "line 2: 4 fields between tabs, not 5: label, id, id"),
        (GOOD + line(b"1.0", b"a\tb", b"c"), "line 2: 6 fields between tabs, not 5"),
        (GOOD + b"\n", "line 2: 1 fields between tabs, not 5"),
        (line(b"2", b"a", b"b"), "line 1: label b'2' is not one of: 0, 1, 0.0, 1.0"),
        (line(b"label", b"a", b"b") + GOOD, "line 1: label b'label' is not one of"),
        (line(b"", b"a", b"b"), "line 1: label b'' is not one of"),
        (b"", "is empty"),
    ],
)
def test_a_wrong_line_is_named(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "new_aan_pairs.test.tsv"
    path.write_bytes(text)
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        released.pairs(path)
    assert str(path) in str(refused.value) and "unpack the archive again" in str(refused.value)


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    path = tmp_path / "new_aan_pairs.test.tsv"
    path.write_bytes(GOOD + GOOD[:-1])
    assert as_rows(released.pairs(path)) == [(1, [97], [98])] * 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.tsv cannot be read: No such file"):
        released.pairs(tmp_path / "gone.tsv")
    with pytest.raises(UserError, match="neg cannot be read: No such file"):
        released.reviews(tmp_path)


def test_reviews_are_those_of_the_files_by_number(reviews: Path) -> None:
    found = released.reviews(reviews / "aclImdb" / "train")
    slow = []
    for label, (name, stars) in enumerate(STARS.items()):
        for number in range(EACH):  # 0, 1, 2, not 0, 1, 10
            path = reviews / "aclImdb" / "train" / name / f"{number}_{stars}.txt"
            slow.append((label, list(path.read_bytes())))
    rows = [(int(found.labels[row]), found.row(row).tolist()) for row in range(len(found))]
    assert rows == slow
    assert (found.sides, found.class_names) == (1, ("negative", "positive"))


def test_long_and_empty_reviews(reviews: Path) -> None:
    folder = reviews / "aclImdb" / "test"
    (folder / "neg" / "0_2.txt").write_bytes(b"\xc3\xa9" * 3000)
    (folder / "neg" / "1_2.txt").write_bytes(b"")
    (folder / "neg" / "2_2.txt").write_bytes(b'a\tb\n"c\r\n')
    (folder / "neg" / ".DS_Store").write_bytes(b"of a file manager")
    found = released.reviews(folder)
    assert bytes(found.row(0)) == b"\xc3\xa9" * 2048
    assert [bytes(found.row(row)) for row in (1, 2)] == [b" ", b'a\tb\n"c\r\n']


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pos/README", "README is no review: its name is not ID_STARS.txt"),
        ("pos/1_two.txt", "is no review"),
        ("pos/99_4.txt", "99_4.txt says 4 stars; reviews in pos/ have 7 to 10"),
        ("neg/99_5.txt", "99_5.txt says 5 stars; reviews in neg/ have 1 to 4"),
        ("neg/99_1.txt", "neg has 21 reviews, not the 20 that were released"),
    ],
)
def test_a_file_that_is_no_review_is_named(reviews: Path, name: str, said: str) -> None:
    folder = reviews / "aclImdb" / "train"
    (folder / name).write_bytes(b"what")
    with pytest.raises(UserError, match=re.escape(said)):
        released.reviews(folder)


def test_an_archive_unpacked_in_part_is_refused(reviews: Path) -> None:
    (reviews / "aclImdb" / "test" / "pos" / "3_9.txt").unlink()
    with pytest.raises(UserError, match="pos has 19 reviews, not the 20 that were released"):
        released.reviews(reviews / "aclImdb" / "test")


def test_every_byte_has_a_symbol_of_its_own() -> None:
    assert len(set(VOCABULARY)) == 256
    assert not any(symbol != symbol.strip() or " " in symbol for symbol in VOCABULARY)
    assert [VOCABULARY[byte] for byte in b"a~ \n\t\r\x00\xe9\x7f"] == [
        *("a", "~", "\\s", "\\n", "\\t", "\\r", "\\x00", "\\xe9", "\\x7f")
    ]
