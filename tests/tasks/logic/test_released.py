"""Reading released files: what is right is read, what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.tasks.logic import released as module
from lrbench.tasks.logic.formulas import RELATIONS, VOCABULARY
from lrbench.tasks.logic.released import read, sizes

GOOD = "#\ta\t( b ( or c ) )\n^\t( not c )\tc\n>\t( not ( c ( and ( not d ) ) ) )\td\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "train3"


def test_a_file_is_read_word_for_word(file: Path) -> None:
    file.write_text(GOOD)
    pairs = read(file)
    assert (pairs.sides, pairs.vocabulary, pairs.class_names) == (2, VOCABULARY, RELATIONS)
    lines = [
        f"{RELATIONS[label]}\t{pairs.text(row, 0)}\t{pairs.text(row, 1)}\n"
        for row, label in enumerate(pairs.labels)
    ]
    assert "".join(lines) == GOOD
    assert sizes(pairs).tolist() == [1, 1, 3]


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("^\t", "#\t", 2, "the label is '#', the formulas are in relation '^'"),
        (">\t", "<\t", 3, "the label is '<', the formulas are in relation '>'"),
        ("^\t", "x\t", 2, "label 'x' is not one of: = < > ^ | v #"),
        ("( b ( or c ) )", "( b ( or c )", 1, "a formula of 6 words is not one whole"),
        ("( not c )", "( c )", 2, "word 3 of a formula, ')', closes neither"),
        ("( not c )", "( nor c )", 2, "word 2 of a formula, 'nor', is not one of"),
        ("( not c )", "( not  c )", 2, "word 3 of a formula, '', is not one of"),
        ("( not c )", "( not c ) ", 2, "word 5 of a formula, '', is not one of"),
        ("\tc\n", "\tc\r\n", 2, r"'c\r'"),
        ("\tc\n", "\n", 2, "2 fields between tabs, not 3"),
        ("\tc\n", "\tc\tc\n", 2, "4 fields between tabs, not 3"),
        ("^\t( not c )", "^ ( not c )\t", 2, "word 1 of a formula, '', is not"),
        ("( not c )\tc", "( c ( and ( not c ) ) )\tc", 2, "left formula is true nowhere"),
        ("^\t", "\n^\t", 2, "1 fields between tabs"),
        ("\td\n", "\td", 3, "is cut off: it does not end with a newline"),
        ("\td\n", "", 3, "is cut off"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(
    file: Path, old: str, new: str, line: int, why: str
) -> None:
    assert GOOD.count(old) >= 1
    file.write_bytes(GOOD.replace(old, new, 1).encode())
    with pytest.raises(UserError) as error:
        read(file)
    reported = str(error.value)
    assert reported.startswith(f"{file}:{line}: ") and why in reported
    assert len(reported.splitlines()) == 1


def test_an_empty_and_a_missing_file(file: Path) -> None:
    with pytest.raises(UserError, match="train3 cannot be read: No such file"):
        read(file)
    file.write_bytes(b"")
    with pytest.raises(UserError, match="train3 is empty"):
        read(file)


@given(
    st.integers(0, len(GOOD) - 1),
    st.one_of(st.binary(max_size=2), st.sampled_from([b" ", b"\t", b"\n", b"( ", b" )", b"not "])),
    st.integers(0, 3),
)
@example(0, b"", 0)
def test_fast_and_slow_readers_agree(place: int, put: bytes, taken: int) -> None:
    """Whatever is done to a file: all at once nothing is read that a line at a time is wrong."""
    data = GOOD.encode()[:place] + put + GOOD.encode()[place + taken :]
    found = module._scanned(data)
    fast = found is not None and module.labelled_right(found)
    lines = data.decode("latin-1").split("\n")
    slow = len(lines) > 1 and lines[-1] == ""
    for line in lines[:-1]:
        try:
            module._check(line)
        except UserError:
            slow = False
    assert fast == slow


def test_a_flipped_label_in_a_released_file_is_found(released_folder: Path, file: Path) -> None:
    lines = (released_folder / "train3").read_text().splitlines(keepends=True)
    row = 1_234
    lines[row] = ("=" if lines[row][0] != "=" else "#") + lines[row][1:]
    file.write_text("".join(lines))
    with pytest.raises(UserError, match=f"train3:{row + 1}: the label is"):
        read(file)


def test_labels_are_those_of_the_lines(released_folder: Path) -> None:
    pairs = read(released_folder / "test12")
    lines = (released_folder / "test12").read_text().splitlines()
    assert [RELATIONS[label] for label in pairs.labels] == [line[0] for line in lines]
    for row in np.arange(0, len(lines), 50).tolist():
        assert lines[row].split("\t")[1:] == [pairs.text(row, 0), pairs.text(row, 1)]
