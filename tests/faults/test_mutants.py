"""Mutants: drawn from a seed alone, one place each, tried by the tests nearest to them."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

from .mutants import (
    NOT_SLOW,
    QUICK,
    ROOT,
    Mutant,
    Outcome,
    drawn,
    mutants,
    mutated,
    read,
    run_tests,
    stages,
    table,
)

EVERY = [Mutant(f"lrbench/{name}.py", "op", number, 1) for name in "ab" for number in range(5)]


def test_each_is_drawn_once_from_the_seed_alone() -> None:
    assert list(drawn(EVERY, 3)) == list(drawn(EVERY, 3)) != list(drawn(EVERY, 4))
    assert sorted(drawn(EVERY, 3), key=str) == sorted(EVERY, key=str)
    assert {one.file for one in islice(drawn(EVERY, 3), 6)} == {"lrbench/a.py", "lrbench/b.py"}


def test_tests_of_a_file_and_of_its_users_come_before_those_of_its_package() -> None:
    own = "tests/tasks/groups/test_algebra.py"
    first, users, *rest = stages("lrbench/tasks/groups/algebra.py", ROOT)
    assert first == (own,) and users == ("tests/tasks/groups/test_task.py",)
    assert rest == [("tests/tasks/groups",), ("tests/tasks",), QUICK]
    near = list(stages("lrbench/tasks/groups/algebra.py", ROOT, near=True))
    assert near == [first, users, *((*folder, *NOT_SLOW) for folder in rest[:-1])]
    own, _users, last = stages("lrbench/statistics.py", ROOT)
    assert (own, last) == (("tests/test_statistics.py",), QUICK)


def test_the_table_counts_and_a_line_gives_back_its_outcome() -> None:
    one = Outcome(0, Mutant("lrbench/tasks/base.py", "op", 0, 1), "a", "b", "tests/tasks")
    other = Outcome(1, Mutant("lrbench/kernels/rows.py", "op", 0, 1), "a", "b", shlex.join(QUICK))
    lost = Outcome(2, Mutant("lrbench/kernels/rows.py", "op", 1, 1), "a", "b", "")
    assert read(json.dumps(asdict(other))) == other
    assert table([one, other, lost])[2:] == [
        "| tasks | 1 | 1 | 1 |",
        "| kernels | 2 | 1 | 0 |",
        "| all | 3 | 2 | 1 |",
    ]


def test_a_mutant_changes_one_line(tmp_path: Path) -> None:
    pytest.importorskip("cosmic_ray", reason="needs the extra 'mutants'")
    folder = tmp_path / "lrbench" / "tasks"
    folder.mkdir(parents=True)
    source = "def step(x):\n    return -x + 1 if x < 2 else x % 3\n"
    (folder / "one.py").write_text(source)
    found = mutants(tmp_path)
    assert {one.operator.partition("_")[2] for one in found} >= {"Add_Sub", "Lt_LtE", "USub_UAdd"}
    assert {one.line for one in found} == {2}
    texts = {mutated(source, one) for one in found}
    assert len(texts) == len(found) and source not in texts
    assert "def step(x):\n    return -x - 1 if x < 2 else x % 3\n" in texts


def test_tests_are_of_the_clone(tmp_path: Path) -> None:
    (tmp_path / "lrbench").mkdir()
    (tmp_path / "lrbench" / "__init__.py").write_text("VALUE = 3\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n")
    (tmp_path / "test_one.py").write_text(
        "import lrbench\n\n\ndef test_value():\n    assert lrbench.VALUE == 3\n"
    )
    code, text = run_tests(["test_one.py"], tmp_path)
    assert code == 0, text
    (tmp_path / "lrbench" / "__init__.py").write_text("VALUE = 4\n")
    code, text = run_tests(["test_one.py"], tmp_path)
    assert code == 1 and "FAILED test_one.py::test_value" in text
