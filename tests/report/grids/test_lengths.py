"""What stands below a paper's table about its verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lrbench.report.runs.collect import collect
from lrbench.report.tables.matrix import paper_tables
from tests.report.tables.test_matrix import spec, trained

Write = Callable[..., Path]
ALIKE, SHORT = "runs that are all alike", "our runs of"


def notes(runs: Path) -> list[str]:
    return [str(note) for note in paper_tables(collect(runs), spec("blockdiag"))[0].notes]


def test_a_smaller_budget_than_the_papers_is_reported(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9, 0.8], {"max_steps": 10_000})
    [note] = [note for note in notes(runs) if note.startswith(SHORT)]
    assert note.startswith("our runs of 10,000 updates stand against the paper's of 40,000:")


def test_the_papers_budget_needs_no_word(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9, 0.8])
    assert not [note for note in notes(runs) if note.startswith(SHORT)]


def test_an_interval_without_width_is_explained(runs: Path, write: Write) -> None:
    trained(write, [1.0, 1.0])
    assert not [note for note in notes(runs) if note.startswith(ALIKE)]  # no verdict on two
    trained(write, [1.0, 1.0, 1.0])
    assert len([note for note in notes(runs) if note.startswith(ALIKE)]) == 1


def test_runs_that_differ_have_an_interval_that_says_so(runs: Path, write: Write) -> None:
    trained(write, [1.0, 1.0, 0.9])
    assert not [note for note in notes(runs) if note.startswith(ALIKE)]


def test_fresh_strings_are_explained_where_they_have_a_row(runs: Path, write: Write) -> None:
    """A number of tests is of fresh strings itself, so there is no second row."""
    trained(write, [1.0, 0.9, 0.8])
    assert "fresh strings: the same checkpoints" in notes(runs)[0]
    write(protocol="suite_v1", accuracy=1.0)
    table = spec("blockdiag", protocol="suite_v1", rule="last")
    (first, *_) = paper_tables(collect(runs), table)
    assert "fresh strings" not in [row[1].text for row in first.rows]
    assert "fresh strings" not in str(first.notes[0])


def test_the_rule_of_the_paper_is_named(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9, 0.8])
    assert "(best look at the test length, the paper's rule)" in notes(runs)[0]
    assert not [note for note in notes(runs) if "NRMSE" in note]
