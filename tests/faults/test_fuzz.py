"""The short lane of the fuzz: some wrong lines and files, and that what is wrong is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .conftest import Laboratory
from .fuzz import LINES, Fuzz, damaged, mutated


@pytest.fixture(scope="module")
def fuzz(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Fuzz:
    """The fuzz of seed 1."""
    return Fuzz(lab, tmp_path_factory.mktemp("fuzz"), seed=1)


@pytest.mark.parametrize("number", range(4))
def test_nothing_wrong_is_done_to_lines_or_files(number: int, fuzz: Fuzz) -> None:
    assert [fuzz.line(number).wrong, fuzz.file(number).wrong] == [[], []]


def test_a_file_outside_and_code_that_ran_are_found(fuzz: Fuzz) -> None:
    def prepare(folder: Path) -> str:
        (folder.parent / "outside").touch()
        (folder / "canary").touch()
        return ""

    wrong = fuzz._run(0, ["no_such_command"], prepare).wrong
    assert len(wrong) == 2
    assert wrong[0].startswith("written outside") and wrong[1] == "what was read was run"


def test_mutations_are_drawn_from_the_generator_alone_and_change_something() -> None:
    twice = [
        [mutated(list(LINES[0]), random.Random(seed)) for seed in range(200)] for _ in range(2)
    ]
    assert twice[0] == twice[1]
    assert sum(words != list(LINES[0]) for words in twice[0]) > 180
    data = b'{"a": {"b": [1, 2, "three"]}}'
    files = [damaged(data, random.Random(seed)) for seed in range(200)]
    assert len(set(files)) > 60 and sum(file != data for file in files) > 190
