"""The released files of Text and Retrieval of Long Range Arena: where they come from, and readers.

Text is the Large Movie Review Dataset (Maas et al. 2011), unpacked:

    aclImdb/{train,test}/{pos,neg}/ID_STARS.txt    one review a file, 12,500 files a folder

Stars are 1 to 4 in `neg` and 7 to 10 in `pos`. Retrieval is pairs of papers of the ACL Anthology
Network (Radev et al. 2013), in the release of Long Range Arena (Tay et al. 2021):

    new_aan_pairs.{train,eval,test}.tsv    label TAB id TAB id TAB document TAB document, a line

Labels are 0.0 and 1.0, of papers that are linked. There is no header, and a quote is a letter like
any other, as in the pipeline of Long Range Arena (`matching/input_pipeline.py`, which splits lines
at tabs alone); that of Ray Chowdhury & Caragea 2023 reads quotes as CSV has them.

A document is its bytes, of which the first 4,096 are kept, as in the released code of Ray Chowdhury
& Caragea 2023 (`process_IMDB_lra.py`, `process_AAN_lra.py`; Long Range Arena keeps 4,000 of
Retrieval). No symbol marks its end. A document without bytes is one space: an encoder needs
something to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lrbench.errors import UserError
from lrbench.tasks.corpus.recipe import Progress
from lrbench.tasks.corpus.strings import Strings

LONGEST = 4096  # bytes of a document that are kept
REVIEWS = 12_500  # files in each folder of reviews
STARS = {"neg": range(1, 5), "pos": range(7, 11)}  # what a review of each folder gave its film
LABELS = {b"0": 0, b"1": 1, b"0.0": 0, b"1.0": 1}
FIELDS = ("label", "id", "id", "document", "document")
FEELINGS = ("negative", "positive")  # class names of Text
LINKS = ("unlinked", "linked")  # class names of Retrieval
PAIRS = {"train": "train", "dev": "eval", "test": "test"}  # split: what its file is called
EMPTY = b" "
NAMED = {" ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
REVIEW = re.compile(r"(\d+)_(\d+)\.txt")


def symbol(byte: int) -> str:
    r"""Return how a byte is shown: itself if it is printable ASCII, else \s, \n or \xe9."""
    letter = chr(byte)
    if letter in NAMED:
        return NAMED[letter]
    return letter if 32 < byte < 127 else f"\\x{byte:02x}"


VOCABULARY = tuple(map(symbol, range(256)))  # a token is a byte


class Documents:
    """Labelled documents, or pairs of them, as they come from files."""

    def __init__(self, class_names: tuple[str, ...], sides: int) -> None:
        self._class_names, self._sides = class_names, sides
        self._bytes, self._ends, self._labels = bytearray(), [0], bytearray()

    def __len__(self) -> int:
        return len(self._labels)

    def add(self, label: int, *documents: bytes) -> None:
        """Add a document, or both of a pair, cut to `LONGEST` bytes."""
        for document in documents:
            self._bytes += document[:LONGEST] or EMPTY
            self._ends.append(len(self._bytes))
        self._labels.append(label)

    def strings(self) -> Strings:
        """Return them as a corpus holds them."""
        return Strings(
            tokens=np.frombuffer(self._bytes, dtype=np.uint8),
            offsets=np.array(self._ends, dtype=np.int64),
            labels=np.frombuffer(self._labels, dtype=np.uint8),
            vocabulary=VOCABULARY,
            class_names=self._class_names,
            sides=self._sides,
        )


def reviews(folder: Path, progress: Progress = lambda what, have, all_: None) -> Strings:
    """Return the reviews of aclImdb/train or aclImdb/test: first `neg`, then `pos`, each by id.

    Raises UserError for a file that is no review, for stars that are not those of its folder, and
    where a folder does not hold the 12,500 reviews that were released.
    """
    found = Documents(FEELINGS, sides=1)
    for label, name in enumerate(STARS):
        for path in _by_id(folder / name):
            found.add(label, _beginning(path))
            progress(f"reviews {folder.name}/{name}", len(found), len(STARS) * REVIEWS)
    return found.strings()


def _by_id(folder: Path) -> list[Path]:
    """Return the reviews of a folder, by their numbers."""
    try:
        paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from error
    numbered = sorted((_id_of(path), path) for path in paths)
    if len(numbered) != REVIEWS:
        raise UserError(
            f"{folder} has {len(numbered):,} reviews, not the {REVIEWS:,} that were released\n"
            "unpack the archive again, all of it"
        )
    return [path for _, path in numbered]


def _id_of(path: Path) -> int:
    named = REVIEW.fullmatch(path.name)
    if not named:
        raise UserError(
            f"{path} is no review: its name is not ID_STARS.txt, such as 17_8.txt\n"
            "move it out of the folder"
        )
    allowed = STARS[path.parent.name]
    if int(named[2]) not in allowed:
        raise UserError(
            f"{path} says {named[2]} stars; reviews in {path.parent.name}/ have {allowed[0]} to"
            f" {allowed[-1]}\nunpack the archive again"
        )
    return int(named[1])


def _beginning(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def pairs(path: Path, progress: Progress = lambda what, have, all_: None) -> Strings:
    """Return the pairs of a file new_aan_pairs.*.tsv, in its order.

    Raises UserError, with file and line, for a line that is no labelled pair; and for a file that
    cannot be read or has no line.
    """
    found = Documents(LINKS, sides=2)
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            _add_lines(found, path, file, size, progress)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    if not len(found):
        raise UserError(f"{path} is empty\nunpack the archive again")
    return found.strings()


def _add_lines(
    found: Documents, path: Path, lines: Iterable[bytes], size: int, progress: Progress
) -> None:
    """Add what lines say; UserError naming the first wrong one."""
    done = 0
    for number, line in enumerate(lines, 1):
        done += len(line)
        fields = line.removesuffix(b"\n").split(b"\t")
        if len(fields) != len(FIELDS):
            raise UserError(
                f"{path}, line {number:,}: {len(fields)} fields between tabs, not {len(FIELDS)}:"
                f" {', '.join(FIELDS)}\nunpack the archive again"
            )
        if fields[0] not in LABELS:
            known = ", ".join(label.decode() for label in LABELS)
            raise UserError(
                f"{path}, line {number:,}: label {fields[0][:20]!r} is not one of: {known}\n"
                "unpack the archive again"
            )
        found.add(LABELS[fields[0]], *fields[3:])
        if number % 1000 == 0 or done == size:
            progress(path.name, done, size)
