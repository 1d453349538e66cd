"""A split on disk: a folder that is there whole or not at all, and says what it is.

Also what identifies its strings elsewhere, and its text for other programs.

    tokens.npy   uint8, all strings one after the other     offsets.npy  int64, where each begins
    labels.npy   uint8, one a string or pair                split.json   how it was made, checksums

Each file is checked against its sha256 whenever a split is read (0.1 s per 100 MB), so that a file
cut short or with a flipped bit is an error and never a slightly different corpus. A split also has
the name of its folder in split.json, so that one in the place of another is an error, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lrbench.disk import sync_folder
from lrbench.errors import UserError
from lrbench.records import SplitIdentity
from lrbench.tasks.corpus.strings import Strings

SCHEMA = 1
ARRAYS = {"tokens": np.uint8, "offsets": np.int64, "labels": np.uint8}
DESCRIPTION = "split.json"


def read(folder: Path) -> Strings:
    """Return the split in `folder`, its arrays memory-mapped.

    Raises UserError, with the command that makes it again, where it is missing or damaged.
    """
    description = describe(folder)
    arrays = {}
    for name, dtype in ARRAYS.items():
        path = folder / f"{name}.npy"
        try:
            if _sha256(path) != description["sha256"][name]:
                raise _damaged(path, folder, f"its sha256 is not the one in {DESCRIPTION}")
            arrays[name] = np.asarray(np.load(path, mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise _damaged(path, folder, getattr(error, "strerror", None) or str(error)) from error
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise _damaged(path, folder, f"it holds {arrays[name].dtype}, not {np.dtype(dtype)}")
    try:
        return Strings(
            **arrays,
            vocabulary=tuple(description["vocabulary"]),
            class_names=tuple(description["class_names"]),
            sides=description["sides"],
            made=description["made"],
        )
    except ValueError as error:
        raise _damaged(folder, folder, str(error)) from error


def describe(folder: Path) -> dict[str, Any]:
    """Return what split.json says; UserError where it is missing, damaged or of another split."""
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_bytes())
    except OSError as error:
        raise _damaged(path, folder, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, folder, f"no JSON, or cut short ({str(error)[:80]})") from error
    if not isinstance(description, dict):
        raise _damaged(path, folder, "it holds no JSON object")
    check = description.pop("check", None)
    if check != _check(description):
        raise _damaged(path, folder, "its own checksum is not that of its text")
    if description["schema"] != SCHEMA:
        raise _damaged(path, folder, f"it has schema {description['schema']}, not {SCHEMA}")
    _check_place(folder, description["made"])
    return description


def _check_place(folder: Path, made: Mapping[str, Any]) -> None:
    """Refuse a split in the folder of another; what does not say its name may lie anywhere."""
    corpus, split = folder.absolute().parts[-2:]
    there = made.get("corpus", corpus), made.get("split", split)
    if there != (corpus, split):
        seed = f" --seed {made['seed']}" if "seed" in made else ""
        raise UserError(
            f"{folder} cannot be used: it should be split '{split}' of {corpus}, but holds split"
            f" '{there[1]}' of {there[0]}, says its {DESCRIPTION}\n"
            "give the folders their own names again, or make what is wrong again with:"
            f" lrbench data make {corpus}{seed}"
        )


def write(folder: Path, strings: Strings) -> None:
    """Put a split at `folder`, all of it at once, in place of one that is there.

    It is written beside it, brought to disk and renamed. Raises UserError if it cannot be written.
    """
    unused = f".{folder.name}.{secrets.token_hex(6)}"
    new, old = folder.with_name(f"{unused}.new.tmp"), folder.with_name(f"{unused}.old.tmp")
    try:
        new.mkdir(parents=True)
        _write_files(new, strings)
        if folder.exists():
            folder.rename(old)  # a folder cannot be renamed onto another
        new.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _write_files(folder: Path, strings: Strings) -> None:
    """Write the arrays, then what describes them, and wait for the disk."""
    sums = {}
    for name, dtype in ARRAYS.items():
        path = folder / f"{name}.npy"
        with open(path, "xb") as file:
            np.save(file, np.ascontiguousarray(getattr(strings, name), dtype))
            file.flush()
            os.fsync(file.fileno())
        sums[name] = _sha256(path)
    description = {
        "schema": SCHEMA,
        "made": dict(strings.made),
        "n": len(strings),
        "sides": strings.sides,
        "vocabulary": list(strings.vocabulary),
        "class_names": list(strings.class_names),
        "sha256": sums,
    }
    text = json.dumps({**description, "check": _check(description)}, indent=2, allow_nan=False)
    with open(folder / DESCRIPTION, "xb") as file:
        file.write(text.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def _check(description: Mapping[str, Any]) -> str:
    """Return the sha256 of a description, however it is laid out."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(path: Path, folder: Path, why: str) -> UserError:
    corpus, split = folder.absolute().parts[-2:]
    return UserError(
        f"{path} cannot be used: {why}\n"
        f"make it again with: lrbench data make {corpus} --splits {split}"
    )


ROWS, SYMBOLS = 3, 40  # that are shown of a split: rows, and symbols of a string


@lru_cache(maxsize=64)
def identity(strings: Strings) -> SplitIdentity:
    """Return what identifies a split; `sha256` is of its files, as split.json has it.

    Of several splits joined, it is of the files they would be.
    """
    return {
        "n": len(strings),
        "sides": strings.sides,
        "made": dict(strings.made),
        "sha256": {
            name: _file_sha256(np.asarray(getattr(strings, name), dtype))
            for name, dtype in ARRAYS.items()
        },
        "rows": [_shown(strings, row) for row in range(min(ROWS, len(strings)))],
    }


def _file_sha256(array: np.ndarray[Any, Any]) -> str:
    """Return the sha256 of the .npy file of an array, without writing it."""
    digest = _Digest()
    np.save(digest, np.ascontiguousarray(array))
    return digest.sha256.hexdigest()


class _Digest:
    """A file that keeps nothing but the hash of what is written."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.sha256.update(data)


def _shown(strings: Strings, row: int) -> str:
    """Return '[MAX 2 9 ] -> 9'; of a pair both strings; long ones are cut."""
    sides = []
    for side in range(strings.sides):
        symbols = [strings.vocabulary[token] for token in strings.row(row, side)[:SYMBOLS].tolist()]
        more = ["..."] if len(strings.row(row, side)) > SYMBOLS else []
        sides.append(" ".join([*symbols, *more]))
    return f"{' | '.join(sides)} -> {strings.class_names[int(strings.labels[row])]}"


SIDES = {1: ("tokens",), 2: ("left", "right")}


def export(splits: Iterable[tuple[str, Strings]], output: Path) -> list[Path]:
    """Write NAME.jsonl and NAME.jsonl.sha256 for each (name, strings); return the first of each.

    A line is {"tokens": "[MAX 5 6 ]", "label": "6"}, of a pair {"left", "right", "label"}. Files
    appear whole or not at all. Raises UserError if they cannot be written.
    """
    written = []
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, strings in splits:
            path = output / f"{name}.jsonl"
            digest = _write(path, lines(strings))
            _write(path.with_name(f"{path.name}.sha256"), [f"{digest}  {path.name}\n"])
            written.append(path)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror or error}") from error
    return written


def lines(strings: Strings) -> Iterator[str]:
    """Yield each string or pair as a line of JSON."""
    names = SIDES[strings.sides]
    for index, label in enumerate(strings.labels.tolist()):
        texts = {name: strings.text(index, side) for side, name in enumerate(names)}
        yield json.dumps({**texts, "label": strings.class_names[label]}) + "\n"


def _write(path: Path, text: Iterable[str]) -> str:
    """Write lines beside `path`, bring them to disk, rename; return their sha256."""
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            for line in text:
                digest.update(line.encode())
                file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        path.chmod(0o644)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return digest.hexdigest()
