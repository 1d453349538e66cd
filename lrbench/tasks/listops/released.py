"""The released files of ListOps: their names, mirrors and readers.

Nangia & Bowman 2018, "ListOps: a diagnostic dataset for latent tree learning" (MIT-style licence,
copyright 2018 New York University). Its training file is nowhere to be had any more.

    d20s (Nangia & Bowman 2018)   label TAB expression
    Long Range Arena              a line "Source TAB Target", then expression TAB label, CSV-quoted

Expressions are written as binary trees: ( ( ( [MAX 5 ) 6 ) ] ). The round parentheses follow from
the rest, and are checked to be the right ones and left out. Every line is parsed and evaluated
again.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lrbench.errors import UserError
from lrbench.tasks.corpus.downloads import Download
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.draw import labelled
from lrbench.tasks.listops.expressions import CLASS_NAMES, check_nesting, encode

FOLDER = "released/listops"  # in the folder of data
_RAW = "https://raw.githubusercontent.com"
MIRRORS = (
    f"{_RAW}/nyu-mll/spinn/listops-release/python/spinn/data/listops",
    f"{_RAW}/yikangshen/Ordered-Memory/master/data/listops",
    f"{_RAW}/yikangshen/Ordered-Neurons/ddb18c3bd529f91e71ab5591092015b07647b755/data/listops",
)
FILES = (
    Download(
        "test_d20s.tsv",
        2_804_179,
        "71335416e6896e8dd8dc69281c8ed9b37316382d05d3705d660461564e843840",
    ),
)


LRA_HEADER = ["Source", "Target"]
Split = Callable[[str], tuple[str, str]]  # a line -> (label, expression)


def read_d20s(path: Path) -> Strings:
    """Return the strings of a d20s file; UserError naming file and line where one is wrong."""
    return _read(path, enumerate(_lines(path), 1), _d20s)


def read_lra(path: Path) -> Strings:
    """Return the strings of an LRA file; UserError naming file and line where one is wrong."""
    lines = enumerate(_lines(path), 1)
    header = next(lines, (1, ""))[1]
    if header.split("\t") != LRA_HEADER:
        raise _wrong(path, 1, f"it is {header[:60]!r}, not the header 'Source TAB Target'")
    return _read(path, lines, _lra)


def from_file(path: Path) -> Strings:
    """Return the strings of a file of either format, which its first line tells."""
    first = next(_lines(path), "")
    return (read_lra if first.split("\t") == LRA_HEADER else read_d20s)(path)


def parenthesised(tokens: list[str]) -> str:
    """Return a right expression with the round parentheses of a binary tree, as files have it.

    An operator takes its arguments one by one, then its "]": each pair is put in parentheses, so
    that there are 3 n - 2 words for n tokens.
    """
    parts: list[str] = []
    opened: list[list[int]] = []  # of operators not closed yet: place in words, arguments so far
    for token in tokens:
        if token.startswith("["):
            opened.append([len(parts), 0])
            parts.append(token)
            continue
        parts.append(token)
        if token == "]":
            place, arguments = opened.pop()
            parts[place] = "( " * (arguments + 1) + parts[place]
            parts.append(")")
        if opened:
            opened[-1][1] += 1
            parts.append(")")
    return " ".join(parts)


def _read(path: Path, lines: Iterator[tuple[int, str]], split: Split) -> Strings:
    tokens, numbers, labels = [], [], []
    for number, line in lines:
        try:
            label, expression = split(line)
            if label not in CLASS_NAMES:
                raise UserError(f"its label is {label[:20]!r}, not a digit")
            tokens.append(_parse(expression))
        except UserError as error:
            raise _wrong(path, number, str(error)) from error
        numbers.append(number)
        labels.append(int(label))
    if not tokens:
        raise UserError(f"{path} has no strings in it")
    offsets = np.cumsum([0] + [len(string) for string in tokens])
    strings = labelled(np.concatenate(tokens), offsets)
    differ = np.flatnonzero(strings.labels != np.array(labels))
    if len(differ):
        first = int(differ[0])
        why = f"its label is {labels[first]}, its expression evaluates to {strings.labels[first]}"
        raise _wrong(path, numbers[first], why)
    return strings


def _parse(expression: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the token ids of an expression with parentheses; UserError where it is none."""
    bare = expression.replace("( ", "").replace(" )", "").split(" ")
    ids = encode(bare)
    check_nesting(ids.tolist())
    if parenthesised(bare) != expression:
        raise UserError("its round parentheses are not those of its operators")
    return ids


def _d20s(line: str) -> tuple[str, str]:
    label, tab, expression = line.partition("\t")
    if not tab:
        raise UserError("it is not: label TAB expression")
    return label, expression


def _lra(line: str) -> tuple[str, str]:
    try:
        rows = list(csv.reader([line], delimiter="\t", strict=True))
    except csv.Error as error:
        raise UserError(f"it cannot be read as CSV: {error}") from error
    if len(rows) != 1 or len(rows[0]) != 2:
        raise UserError("it is not: expression TAB label")
    return rows[0][1], rows[0][0]


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, whichever way they end."""
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _wrong(path: Path, number: int, why: str) -> UserError:
    return UserError(f"{path}, line {number}: {why}")
