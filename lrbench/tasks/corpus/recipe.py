"""Recipes of corpora: making and finding their splits, in a folder below the data folder.

Making is idempotent: a split that is there, whole and made the same way, stays. All splits of a
folder are made with one seed, because a split of another seed could hold strings that a model is
trained on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrbench.disk import lock
from lrbench.errors import UserError, unknown
from lrbench.locations import ELSEWHERE, data_dir
from lrbench.tasks.corpus.storage import describe, read, write
from lrbench.tasks.corpus.strings import Strings

Progress = Callable[[str, int, int], None]  # what is made, how many there are, how many there will
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """How to make a corpus.

    `splits` are those kept on disk, `views` names for several of them joined. `settings(split)` is
    what its strings depend on besides `version` and seed, as JSON. `draw(splits, seed, progress)`
    yields each of these splits with its strings, in any order.
    """

    name: str
    version: int
    splits: tuple[str, ...]
    settings: Callable[[str], dict[str, Any]]
    draw: Callable[[Sequence[str], int, Progress], Iterator[tuple[str, Strings]]]
    views: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where its splits are."""
        return data_dir() / self.name

    def made(self, split: str, seed: int) -> dict[str, Any]:
        """Return how a split is made, as it is written beside it."""
        return {
            "corpus": self.name,
            "version": self.version,
            "split": split,
            "seed": seed,
            "settings": self.settings(split),
        }

    def stored(self, names: Sequence[str]) -> list[str]:
        """Return the splits on disk that splits and views need, each once; UserError if unknown."""
        found: dict[str, None] = {}
        for name in names:
            if name not in self.splits and name not in self.views:
                raise unknown(f"{self.name}: split", name, (*self.splits, *self.views))
            found.update(dict.fromkeys(self.views.get(name, (name,))))
        return list(found)


@dataclass(frozen=True)
class Released(Recipe):
    """A corpus that nobody draws: its splits are the same whatever the seed, and say 0."""

    def made(self, split: str, seed: int) -> dict[str, Any]:
        return super().made(split, 0)


def load(recipe: Recipe, name: str) -> Strings:
    """Return a split or view; UserError if it is unknown, not made yet, damaged or of two seeds."""
    splits = recipe.stored([name])
    missing = [split for split in splits if not (recipe.folder / split).is_dir()]
    if missing:
        raise UserError(
            f"{recipe.name}: there is no split '{missing[0]}' in {recipe.folder}\n"
            f"make it with: {_making(recipe, missing)}\n"
            f"or name the folder that holds {recipe.name}/ with LRBENCH_DATA"
        )
    _check_seeds(recipe, {})
    parts = [read(recipe.folder / split) for split in splits]
    for split, part in zip(splits, parts, strict=True):
        version = part.made.get("version")
        if version != recipe.version:
            raise UserError(
                f"{recipe.folder / split} was made by version {version} of the corpus,"
                f" this is {recipe.version}\n"
                f"make all of it again with: lrbench data make {recipe.name} --force"
            )
    return parts[0] if len(parts) == 1 else Strings.join(parts)


def _making(recipe: Recipe, missing: Sequence[str]) -> str:
    """Return the command that makes what is missing: all of a corpus of which nothing is there."""
    there = [split for split in recipe.splits if (recipe.folder / split).is_dir()]
    if not there:
        return f"lrbench data make {recipe.name}"
    seed = describe(recipe.folder / there[0])["made"].get("seed")
    of_them = f" --seed {seed}" if seed else ""
    return f"lrbench data make {recipe.name} --splits {','.join(missing)}{of_them}"


def make(
    recipe: Recipe, names: Sequence[str], seed: int, force: bool, progress: Progress, tell: Tell
) -> list[str]:
    """Make those of the splits that are not there, all with `force`; return what was made.

    A damaged split is made again. Raises UserError, before anything is made, where one that is
    there was made in another way, and where the folder cannot be written.
    """
    splits = recipe.stored(names or recipe.splits)
    with _alone(recipe.folder, tell):
        missing = splits if force else [s for s in splits if not _is_there(recipe, s, seed, tell)]
        _check_seeds(recipe, dict.fromkeys(missing, seed))
        for split, strings in recipe.draw(missing, seed, progress) if missing else ():
            made = replace(strings, made=recipe.made(split, seed))
            write(recipe.folder / split, made)
            tell(f"{recipe.folder / split}: {len(made):,} strings")
    return missing


def _is_there(recipe: Recipe, split: str, seed: int, tell: Tell) -> bool:
    """Whether a split is there and whole; UserError if it was made in another way."""
    folder = recipe.folder / split
    if not folder.exists():
        return False
    try:
        there = read(folder).made
    except UserError as error:
        tell(f"{str(error).splitlines()[0]}; it is made again")
        return False
    wanted = recipe.made(split, seed)
    if there == wanted:
        return True
    differs = [
        f"{key} {there.get(key)}, not {wanted.get(key)}"
        for key in dict.fromkeys((*wanted, *there))
        if there.get(key) != wanted.get(key)
    ]
    raise UserError(
        f"{folder} is there but made in another way: {'; '.join(differs)[:300]}\n"
        "keep it, or make all of the corpus again with --force,"
        f" or {ELSEWHERE}"
    )


def _check_seeds(recipe: Recipe, coming: Mapping[str, int]) -> None:
    """Refuse a folder with splits of several seeds, when those `coming` will have been made."""
    seeds: dict[Any, str] = {seed: split for split, seed in coming.items()}
    for split in recipe.splits:
        if split not in coming and (recipe.folder / split).is_dir():
            seeds.setdefault(describe(recipe.folder / split)["made"].get("seed"), split)
    if len(seeds) > 1:
        named = " and ".join(f"{split} (seed {seed})" for seed, split in seeds.items())
        raise UserError(
            f"{recipe.folder}: {named} do not belong together; a test could hold training strings\n"
            f"make all of them with one seed: lrbench data make {recipe.name} --seed N --force"
        )


@contextmanager
def _alone(folder: Path, tell: Tell) -> Iterator[None]:
    """Keep other makers out of a folder, and remove what one that was killed left in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror or error}\n{ELSEWHERE}"
        ) from error
    try:
        if lock(descriptor, tell, f"{folder}: another process is making it"):
            for left in folder.glob(".*.tmp"):
                shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)  # which gives the lock back
