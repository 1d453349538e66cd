"""What goes on with a run that has not ended: the command that is known to be its own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from lrbench.records import IRRELEVANT
from lrbench.report.grids.selection import GROUPS, flat_typed
from lrbench.report.output.cells import GOES_ON
from lrbench.report.runs.columns import Environment, Settings, UnderWay

PARTS = ("task", "model", "protocol")
NOT_KEPT = ("seed", "trials", "force", "output_dir")  # of the words that were typed
OUTPUT_DIR = "outputs"  # its default


def going_on(run: UnderWay, overrides: Sequence[str], environment: Environment) -> str:
    """Return the command, or where none is certain that the one that began the run does it.

    overrides: the words of the cell that it stands in; they may be fewer than were typed.
    environment: what environment.json of its cell tells, where the words are that were.
    """
    words = _typed(environment, run.settings)
    if words is None and _names_all(overrides, run.settings):
        words = list(overrides)
    if words is None or run.settings.get("data_seed") is not None:  # it may be that of a first seed
        return f"the command that began {run.folder} goes on with it"
    said = {f"{_key(word)}.name" for word in words}  # a sweep names a part's file and its name
    kept = [word for word in words if _key(word) not in (*NOT_KEPT, *said)]
    place = run.settings.get("output_dir", OUTPUT_DIR)
    where = [f"output_dir={place}"] if place != OUTPUT_DIR else []
    typed = shlex.join([*kept, *where, f"seed={run.seed}"])
    return f"{GOES_ON}lrbench train {typed}"


def _typed(environment: Environment, settings: Settings) -> list[str] | None:
    """The words that were typed after `lrbench train`, where they still are what was typed.

    A folder of the machine is cut out of them: no flag is believed, and no setting that the run has
    otherwise.
    """
    command: Any = environment.get("command")
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return None
    if command[1:2] != ["train"]:
        return None
    words: list[str] = command[2:]
    return words if all(_fits(word, settings) for word in words) else None


def _fits(word: str, settings: Mapping[str, Any]) -> bool:
    """Whether a word is a setting that the run has; one at its default may not be recorded."""
    key, sign, text = word.partition("=")
    if not sign or not key[:1].isalpha() or "/" in key:
        return False
    if key in PARTS:
        return bool(settings.get(f"{key}.name") == text)
    if key in (*GROUPS, *IRRELEVANT):
        return True
    return all(settings.get(name, value) == value for name, value in flat_typed(key, text))


def _names_all(overrides: Sequence[str], settings: Settings) -> bool:
    """Whether the words of a cell name every setting of a run, so that no other was typed."""
    named = {key for word in overrides for key, _ in flat_typed(_key(word), word.partition("=")[2])}
    known = {*named, *(f"{part}.name" for part in PARTS), *IRRELEVANT, "data_seed"}
    return not set(settings) - known and all(_fits(word, settings) for word in overrides)


def _key(word: str) -> str:
    return word.partition("=")[0]
