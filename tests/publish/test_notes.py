"""notes.yaml: its words reach the page, its numbers do not, and no slip stays unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.publish.notes import check_patterns, read_notes

Run = Callable[..., Any]
NOTES = """\
about: |
  What it is: see section `4.1`.
  0.5 is no number here, `0.5` is.
"""
WHOLE = """\
# 0.1 in a comment is not printed
about: What the table is.
findings:
  - title: It has two rows
    text: |
      `0.5` and more.

      In all runs.
commands: [lrbench tune task=sum model=s4 --grid optim.lr=0.001]
tuning: The rates were searched at `0.001` and three others.
disagreements:
  - cells: ["sum x s4*"]
    checked: Its code against
      the published kernels.
    believed: Its state of 3,000 numbers helps
  - cells: ["sum x blockdiag"]
    checked: Nothing.
    believed: Too few runs.
"""


def test_words_reach_the_page(lrbench: Run, results: Path) -> None:
    (results / "toy" / "notes.yaml").write_text(WHOLE)
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 0
    assert "warning: toy: the note on sum x blockdiag is about nothing that disagrees" in ended.err
    page = (results / "toy" / "README.md").read_text()
    assert "\n\nWhat the table is.\n\n## Table" in page
    finding = "\n## What it says\n\n### It has two rows\n\n`0.5` and more.\n\nIn all runs.\n\n"
    assert finding + "## Where we and the paper disagree\n" in page
    assert page.index(finding) > page.index("## Table")
    item = (
        "; above\n\n  Checked: Its code against the published kernels."
        " Believed: Its state of 3,000 numbers helps.\n"
    )
    assert item in page and "Not looked into yet" not in page
    assert "```sh\nlrbench tune task=sum model=s4 --grid optim.lr=0.001\nlrbench sweep" in page
    assert page.endswith("The rates were searched at `0.001` and three others.\n")


def test_a_disagreement_without_a_note_is_a_warning(lrbench: Run, results: Path) -> None:
    ended = lrbench("publish", "--rebuild", str(results), "--check")
    assert ended.code == 0
    assert "warning: toy: sum x s4 disagrees with the paper" in ended.err


def test_a_number_is_refused(lrbench: Run, results: Path) -> None:
    (results / "toy" / "notes.yaml").write_text(NOTES)
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 1
    assert "notes.yaml', line 3: the number 0.5 stands in a note" in ended.err
    (results / "notes.yaml").write_text("about: It is .99 there\n")
    (results / "toy" / "notes.yaml").unlink()
    ended = lrbench("publish", "--rebuild", str(results))
    assert ended.code == 1 and "line 1: the number .99" in ended.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abuot: x", "abuot"),
        ("- about", "must hold keys"),
        ("about: [x", "cannot be read"),
        ("about: [x]", "'about' must be text"),
        ("commands: x", "'commands' must be a list"),
        ("findings: x", "'findings' must be a list of title, text"),
        ("findings: [{title: x}]", "not both are there"),
        ("findings: [{title: x, text: 3}]", "'text' must be text"),
        ("findings: [{title: It has 0.3, text: x}]", "line 1: the number 0.3"),
        ("findings: [{head: x, text: y}]", "'head'"),
        ("disagreements: x", "must be a list of cells"),
        ("disagreements: [{cells: [a], checked: x}]", "not all are there"),
        ("disagreements: [{cells: [a], checked: x, believed: 3}]", "'believed' must be text"),
        ("disagreements: [{cell: [a], checked: x, believed: y}]", "'cell'"),
        (
            "disagreements:\n- cells: [a]\n  checked: x\n  believed: almost 0.9",
            "line 4: the number 0.9",
        ),
    ],
)
def test_slips(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "notes.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_notes(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.mkdir()
    with pytest.raises(UserError) as caught:
        read_notes(path)
    assert str(caught.value) == f"'{path}' cannot be read: Is a directory"


def test_a_pattern_of_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "notes.yaml"
    path.write_text("disagreements: [{cells: ['sum x s4', 'sum x s5'], checked: x, believed: y}]")
    notes = read_notes(path)
    check_patterns(path, notes, ["sum x s4", "sum x s5"])
    with pytest.raises(UserError, match="'sum x s5'"):
        check_patterns(path, notes, ["sum x s4", "sum x lru"])


def test_no_notes(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "notes.yaml").about == ""
    (tmp_path / "notes.yaml").write_text("# nothing yet\n")
    assert read_notes(tmp_path / "notes.yaml").disagreements == ()
