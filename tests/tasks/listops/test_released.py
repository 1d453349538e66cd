"""Reading released files: what is right is read, what is wrong is told with file and line."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.expressions import VOCABULARY
from lrbench.tasks.listops.released import parenthesised, read_d20s, read_lra

from .test_expressions import expressions

Read = Callable[[Path], Strings]
LINES = [
    ("6", "( ( ( [MAX 5 ) 6 ) ] )"),
    ("7", "7"),
    ("3", "( ( ( [MED 3 ) ( ( ( [MIN 9 ) 4 ) ] ) ) ] )"),
]


def written(path: Path, kind: str, lines: list[tuple[str, str]] = LINES) -> Path:
    with open(path, "w", newline="") as file:
        if kind == "d20s":
            file.writelines(f"{label}\t{expression}\n" for label, expression in lines)
        else:
            table = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL)
            file.write("Source\tTarget\r\n")
            table.writerows((expression, label) for label, expression in lines)
    return path


@pytest.mark.parametrize(("kind", "read"), [("d20s", read_d20s), ("lra", read_lra)])
def test_both_formats(kind: str, read: Read, tmp_path: Path) -> None:
    strings = read(written(tmp_path / "file.tsv", kind))
    assert [strings.text(row) for row in range(3)] == ["[MAX 5 6 ]", "7", "[MED 3 [MIN 9 4 ] ]"]
    assert strings.labels.tolist() == [6, 7, 3]
    assert strings.vocabulary == VOCABULARY and strings.sides == 1


def test_lra_without_quotes(tmp_path: Path) -> None:
    text = "".join(f"{expression}\t{label}\n" for label, expression in LINES)
    (tmp_path / "file.tsv").write_text("Source\tTarget\n" + text)
    assert read_lra(tmp_path / "file.tsv").labels.tolist() == [6, 7, 3]


@given(expressions)
def test_parentheses_are_binary(tokens: list[str]) -> None:
    text = parenthesised(tokens)
    assert len(text.split()) == 3 * len(tokens) - 2
    assert text.replace("( ", "").replace(" )", "").split() == tokens
    nested: list[list[object]] = [[]]
    for word in text.split():
        if word == "(":
            nested.append([])
        elif word == ")":
            pair = nested.pop()
            assert len(pair) == 2
            nested[-1].append(pair)
        else:
            nested[-1].append(word)
    assert len(nested) == 1 and len(nested[0]) == 1


def test_parentheses_of_every_released_line(released: Strings, shared: Path) -> None:
    lines = (shared / "data" / "listops" / "test_d20s.tsv").read_text().splitlines()
    for row in range(0, len(lines), 7):
        assert parenthesised(released.text(row).split()) == lines[row].split("\t")[1]


WRONG = {
    "another value": ("5", LINES[0][1], "its label is 5, its expression evaluates to 6"),
    "no digit": ("12", LINES[0][1], "its label is '12', not a digit"),
    "empty label": ("", LINES[0][1], "its label is '', not a digit"),
    "another token": ("6", "( ( ( [MUX 5 ) 6 ) ] )", r"token 1 is '\[MUX'"),
    "cut short": ("6", "( ( ( [MAX 5 ) 6", "1 operator is not closed"),
    "a parenthesis less": ("6", "( ( ( [MAX 5 ) 6 ) ]", "round parentheses"),
    "right-branching": ("6", "( [MAX ( 5 ( 6 ] ) ) )", "round parentheses"),
    "no parentheses": ("6", "[MAX 5 6 ]", "round parentheses"),
    "two expressions": ("6", "5 6", "ends at token 1, but 1 follow"),
    "nothing": ("6", "", "token 1 is ''"),
    "two spaces": ("6", "( ( ( [MAX  5 ) 6 ) ] )", "token 2 is ''"),
}


@pytest.mark.parametrize(("kind", "read", "first"), [("d20s", read_d20s, 1), ("lra", read_lra, 2)])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_reported(
    kind: str, read: Read, first: int, name: str, tmp_path: Path
) -> None:
    label, expression, why = WRONG[name]
    path = written(tmp_path / "file.tsv", kind, [*LINES, (label, expression), LINES[1]])
    with pytest.raises(UserError, match=f"file.tsv, line {first + 3}: .*{why}"):
        read(path)


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (read_d20s, "", "has no strings"),
        (read_d20s, "6 [MAX 6 ]\n", "line 1: it is not: label TAB expression"),
        (read_d20s, "7\t7\n\n", "line 2: it is not: label TAB"),
        (read_d20s, "7\t7\nü", "is no text"),
        (read_lra, "", "line 1: it is '', not the header"),
        (read_lra, "7\t7\n", "line 1: .* not the header 'Source TAB Target'"),
        (read_lra, "Source\tTarget\n", "has no strings"),
        (read_lra, "Source\tTarget\n7\t7\t7\n", "line 2: it is not: expression TAB label"),
        (read_lra, 'Source\tTarget\n"7"\t7\n"7', "line 3: it cannot be read as CSV"),
        (read_lra, "Source\tTarget\n\n", "line 2: it is not: expression TAB label"),
    ],
)
def test_other_files_are_reported(read: Read, text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "file.tsv"
    path.write_text(text)
    with pytest.raises(UserError, match=why):
        read(path)


def test_no_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_d20s(tmp_path / "nothing.tsv")


def test_a_released_file_cut_anywhere_is_reported(shared: Path, tmp_path: Path) -> None:
    whole = (shared / "data" / "listops" / "test_d20s.tsv").read_bytes()[:600]
    ends = {place + more for place in range(600) if whole[place : place + 1] == b"\n"
            for more in (0, 1)}  # fmt: skip
    path = tmp_path / "file.tsv"
    for length in range(1, 600):
        path.write_bytes(whole[:length])
        if length in ends:
            assert len(read_d20s(path)) == whole[: length + 1].count(b"\n")
        else:
            with pytest.raises(UserError, match=r"file\.tsv, line"):
                read_d20s(path)
