"""The released text: `label TAB formula TAB formula`, a line a pair, words between single spaces.

A file is read all at once as an array of bytes. Only where that finds something wrong is it read
again, line by line, to say what and where.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.formulas import Offsets, Tokens, count_operators, evaluate
from lrbench.tasks.logic.relations import contingent, relation, relations
from lrbench.tasks.logic.vocabulary import RELATIONS, WORDS

SPACE, TAB, NEWLINE = b" \t\n"
UNKNOWN = 255


def pairs(tokens: Tokens, offsets: Offsets, labels: NDArray[np.uint8]) -> Strings:
    """Return n pairs of formulas as a corpus holds them; offsets (2n + 1,), labels (n,)."""
    return Strings(tokens, offsets, labels, WORDS, RELATIONS, sides=2)


def read(path: Path) -> Strings:
    """Read a file and compute every label anew.

    Raises UserError, with file and line, for a line that is no pair of formulas and for a label
    that is not their relation; and for a file that cannot be read.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    found = _scanned(text)
    if found is None or not labelled_right(found):
        raise UserError(f"{path}{_fault(text)}")
    return found


def labelled_right(strings: Strings) -> bool:
    """Whether all strings are formulas, and each label is the relation of its pair."""
    worlds, good = evaluate(strings.tokens, strings.offsets)
    if not (good.all() and contingent(worlds).all()):
        return False
    return bool((relations(worlds[::2], worlds[1::2]) == strings.labels).all())


def sizes(strings: Strings) -> NDArray[np.int64]:
    """Return each pair's size: how many and, or, not its longer side has (n,)."""
    left, right = count_operators(strings.tokens, strings.offsets).reshape(-1, 2).T
    return np.maximum(left, right)


def _scanned(text: bytes) -> Strings | None:
    """Return the pairs of a text, formulas unchecked; None if it is not of the right form."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(_SEPARATES[data])
    if not len(ends) or ends[-1] != len(data) - 1:
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    words, separators = _words(data, starts, ends - starts), data[ends]
    lines = np.flatnonzero(separators == NEWLINE)  # the last word of each line
    first = np.concatenate([[0], lines[:-1] + 1])
    tabs = np.concatenate([[0], np.cumsum(separators == TAB)])
    labels = _LABELS[data[starts[first]]]
    if (
        (separators[first] != TAB).any()
        or (np.diff(tabs[np.append(first, len(words))]) != 2).any()
        or (ends[first] - starts[first] != 1).any()
        or (labels == UNKNOWN).any()
    ):
        return None
    of_formula = np.ones(len(words), dtype=bool)
    of_formula[first] = False
    tokens, separators = words[of_formula], separators[of_formula]
    offsets = np.concatenate([[0], np.flatnonzero(separators != SPACE) + 1])
    return None if (tokens == UNKNOWN).any() else pairs(tokens, offsets, labels)


def _words(data: Tokens, starts: NDArray[np.intp], lengths: NDArray[np.intp]) -> Tokens:
    """Return the token of each word, UNKNOWN for what is none."""
    tokens = np.where(lengths == 1, _LETTERS[data[starts]], UNKNOWN).astype(np.uint8)
    for word in (word for word in WORDS if len(word) > 1):
        rows = np.flatnonzero(lengths == len(word))
        for place, letter in enumerate(word.encode()):
            rows = rows[data[starts[rows] + place] == letter]
        tokens[rows] = WORDS.index(word)
    return tokens


def _fault(text: bytes) -> str:
    """Return `:LINE: what is wrong` of the first wrong line of a text that has one."""
    lines = text.decode("latin-1").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            _check(line)
        except UserError as error:
            return f":{number}: {error}"
    if not text:
        return " is empty"
    return f":{len(lines)}: is cut off: it does not end with a newline"


def _check(line: str) -> None:
    """Raise UserError if a line is no pair with its relation."""
    fields = line.split("\t")
    if len(fields) != 3:
        raise UserError(f"{len(fields)} fields between tabs, not 3: label, formula, formula")
    label, left, right = fields
    found = relation(left.split(" "), right.split(" "))
    if label not in RELATIONS:
        raise UserError(f"label {label[:20]!r} is not one of: {' '.join(RELATIONS)}")
    if label != found:
        raise UserError(f"the label is '{label}', the formulas are in relation '{found}'")


def _lookups() -> tuple[Tokens, Tokens, NDArray[np.bool_]]:
    """Return byte -> token of one letter, byte -> class, byte -> whether it ends a word."""
    letters, labels = np.full(256, UNKNOWN, np.uint8), np.full(256, UNKNOWN, np.uint8)
    for token, word in enumerate(WORDS):
        if len(word) == 1:
            letters[ord(word)] = token
    for number, name in enumerate(RELATIONS):
        labels[ord(name)] = number
    separates = np.zeros(256, dtype=bool)
    separates[[SPACE, TAB, NEWLINE]] = True
    return letters, labels, separates


_LETTERS, _LABELS, _SEPARATES = _lookups()
