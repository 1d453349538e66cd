"""The released files of logical inference: their names, mirrors and readers.

Bowman, Manning & Potts 2015, "Tree-structured composition in neural networks without
tree-structured architectures", as released with Ordered Memory (Shen et al. 2019; MIT licence,
copyright 2019 Yikang Shen).

A line is a pair, `label TAB formula TAB formula`, with single spaces between words. A file is read
all at once as an array of bytes. Only where that finds something wrong is it read again, line by
line, to say what and where.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lrbench.errors import UserError
from lrbench.tasks.corpus.downloads import Download
from lrbench.tasks.corpus.recipe import Progress
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.formulas import (
    RELATIONS,
    VOCABULARY,
    Offsets,
    Tokens,
    contingent,
    count_operators,
    evaluate,
    relation,
    relations,
)

FOLDER = "released/logic"  # in the folder of data
_RAW = "https://raw.githubusercontent.com/yikangshen"
MIRRORS = (
    f"{_RAW}/Ordered-Memory/master/data/propositionallogic",
    f"{_RAW}/Ordered-Neurons/9d193144971aa0f3f13a5f1b5246cf97477dc2f6/data/propositionallogic",
)
FILES = tuple(
    Download(name, size, sha256)
    for name, size, sha256 in (
        ("train0", 180, "6b7679d24a5121e747bbb6e1606c33773ef2803d2f1e3e5961f396bfe6d5ead1"),
        ("train1", 58_386, "b18140de23966481c20d6d4cac1f014322f760d6f891f643ff4beca48df1d347"),
        ("train2", 462_233, "b08cfe4e89fa941d053b7ba229f3743d25d0a73235c628bf45da645336ecc22a"),
        ("train3", 1_121_339, "ab0dd5694b97815ed29d2be7016790ba78b5173b68df5702ed4d0f9cad087041"),
        ("train4", 1_831_496, "ca53b91edcb966330ca6a4241ca313932f3dd897ce7af18b2446e6c551bb63fc"),
        ("train5", 2_493_499, "8c6db46c7527aea7f685400075c2cebad2a36acb4904371c052827f3769baa00"),
        ("train6", 2_824_732, "ab507a99dcd2f7a2c4a3c81fbdbf0e55e1169d48f1be177ee8278778f34cf141"),
        ("test0", 36, "0f0f47ea2699b52c8e49d84466afdae457111320669b328e752b690d21dab0ef"),
        ("test1", 13_456, "d846fd8e2e10c44b95796cd31a3ea9056bd2ab7e510447e92172d252b5a4ebcf"),
        ("test2", 88_889, "74d3b9346bbdff39e9f6bd81bb84446309b3918e4d6dbae820280958c935fb82"),
        ("test3", 205_435, "c22eb4b2120fd2599eea1772ff2983e44b5e5501f17bfedc7f526ab6ddea9557"),
        ("test4", 325_528, "171a5b9ff84c8c8972662d7ee84d9bae88a0b0caf121c779e1898d08ff23d056"),
        ("test5", 443_141, "4456aab62f4189a95645822d7fd22b8b12ebadc15679fb37ed93921d1ee11004"),
        ("test6", 498_119, "b99fa4c2b48db710213cbfcf948ab08fdaf327c07f5e7fa978747f1cf73c53d0"),
        ("test7", 462_270, "9951b19945ea6b7b388118b05ac497b197aba7e24fbd501c5d9cf71f57433da5"),
        ("test8", 374_167, "8b653190922c9b5902339714e79d22654e0f34e61d691e0d592589a92882bc30"),
        ("test9", 273_795, "6d404315b4e0b15e70084f621f7e9677deebf7378016b0df95fbb63487851ed5"),
        ("test10", 196_231, "bb3b3d312bb3223bdad030695d6004dc9d1d6131fe26a5531f2e54cc1bd1e780"),
        ("test11", 125_549, "f6ee99fac9b1459448f6b2dc0a263fab7493d9a1e05ed1d32e0674031aa4fda5"),
        ("test12", 139_799, "37d63e62b894cd2f25977d3092c71da23244cbadcfa12909183f57da938abb9f"),
    )
)
SPACE, TAB, NEWLINE = b" \t\n"
UNKNOWN = 255


def pairs(tokens: Tokens, offsets: Offsets, labels: NDArray[np.uint8]) -> Strings:
    """Return n pairs of formulas as a corpus holds them; offsets (2n + 1,), labels (n,)."""
    return Strings(tokens, offsets, labels, VOCABULARY, RELATIONS, sides=2)


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


def read_files(
    folder: Path, progress: Progress = lambda what, have, all_: None
) -> dict[str, Strings]:
    """Read all twenty files in `folder`; UserError for one that is missing or wrong."""
    names = [file.name for file in FILES]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"logic: there is no {', '.join(missing[:5])} in {folder}\n"
            "get the released files with: lrbench data fetch logic"
        )
    files = {}
    for number, name in enumerate(names, 1):
        files[name] = read(folder / name)
        progress("files", number, len(names))
    return files


def check_released(folder: Path) -> None:
    """Refuse files that are in order but not those that the splits would name as their source."""
    for file in FILES:
        if not file.is_at(folder / file.name):
            raise UserError(
                f"{folder / file.name} is not the released file: its sha256 is another\n"
                "move it away and get the released one with: lrbench data fetch logic"
            )


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
    for word in (word for word in VOCABULARY if len(word) > 1):
        rows = np.flatnonzero(lengths == len(word))
        for place, letter in enumerate(word.encode()):
            rows = rows[data[starts[rows] + place] == letter]
        tokens[rows] = VOCABULARY.index(word)
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
    for token, text in enumerate(VOCABULARY):
        if len(text) == 1:
            letters[ord(text)] = token
    for number, name in enumerate(RELATIONS):
        labels[ord(name)] = number
    separates = np.zeros(256, dtype=bool)
    separates[[SPACE, TAB, NEWLINE]] = True
    return letters, labels, separates


_LETTERS, _LABELS, _SEPARATES = _lookups()
