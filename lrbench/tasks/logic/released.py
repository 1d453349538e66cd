"""The corpus of Bowman, Manning & Potts 2015 as released, from the files that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench import logic_files
from lrbench.errors import UserError
from lrbench.locations import data_dir
from lrbench.tasks.corpus.recipe import Progress, Recipe, Tell, make
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.logic.splits import SPLITS, TEST_FILES, TRAIN_FILES, split
from lrbench.tasks.logic.text import read

NAMES = (*TRAIN_FILES, *TEST_FILES.values())


@dataclass(frozen=True)
class Released(Recipe):
    """A corpus that nobody draws: its splits are the same whatever the seed, and say 0."""

    def made(self, split: str, seed: int) -> dict[str, Any]:
        return super().made(split, 0)


def recipe(folder: Path | None = None) -> Released:
    """Return how splits are made of the files train0..train6, test0..test12 in `folder`.

    Without one it is where `lrbench data fetch logic` puts them.
    """

    def draw(names: Sequence[str], _: int, progress: Progress) -> Iterator[tuple[str, Strings]]:
        source = folder or data_dir() / logic_files.FOLDER
        files = read_files(source, progress)
        _check_released(source)
        yield from split(names, files)

    return Released("logic_released", version=1, splits=SPLITS, settings=_settings, draw=draw)


def read_files(
    folder: Path, progress: Progress = lambda what, have, all_: None
) -> dict[str, Strings]:
    """Read the twenty files that splits need; UserError for one that is missing or wrong."""
    missing = [name for name in NAMES if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"logic: there is no {', '.join(missing[:5])} in {folder}\n"
            "get the released files with: lrbench data fetch logic"
        )
    files = {}
    for number, name in enumerate(NAMES, 1):
        files[name] = read(folder / name)
        progress("files", number, len(NAMES))
    return files


def store(folder: Path, progress: Progress, tell: Tell) -> list[str]:
    """Make the splits of the released files in `folder`; return those that were not there yet.

    Raises UserError for a wrong file and where splits cannot be written.
    """
    return make(recipe(folder), SPLITS, 0, False, progress, tell)


def _check_released(folder: Path) -> None:
    """Refuse files that are in order but not those that the splits would name as their source."""
    for file in logic_files.FILES:
        if not file.is_at(folder / file.name):
            raise UserError(
                f"{folder / file.name} is not the released file: its sha256 is another\n"
                "move it away and get the released one with: lrbench data fetch logic"
            )


def _settings(_: str) -> dict[str, Any]:
    """Return what tells these splits from ours, and from those of other files."""
    return {"source": "released", "sha256": {file.name: file.sha256 for file in logic_files.FILES}}


RECIPE = recipe()
