"""What is known of runs on all strings: read from their folders, published, and read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.output.render import render
from lrbench.report.runs.archive import archive, read_archive
from lrbench.report.runs.certificates import answers_csv, complaint, parsed_answers
from lrbench.report.runs.collect import collect
from lrbench.report.runs.columns import BY_CLOCK, Answer
from lrbench.report.tables.request import Request

Write = Callable[..., Path]


def certificate(**changes: Any) -> dict[str, Any]:
    """Return the content of certificates/last.json of a run that is wrong on 12 symbols."""
    witness = {"string": "300000000002", "length": 12, "shortest": False, "given": "2"}
    return {
        "format": "lrbench-certificate",
        "version": 1,
        "verdict": "wrong",
        "which": "last",
        "step": 2000,
        "weights_sha256": "ab" * 32,
        "searched": {"complete_to": 9},
        "witness": witness,
    } | changes


def keep(folder: Path, content: Any, name: str = "last.json") -> Path:
    file = folder / "certificates" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_rules_that_kept_one_checkpoint_share_its_answer(write: Write, runs: Path) -> None:
    folder = write()  # best and last are of update 2,000, id of 1,500, band of 1,000
    keep(folder, certificate())
    keep(folder, certificate(which="id", step=1400), "id.json")  # made while it was trained
    (folder / "certificates" / "last.npz").write_bytes(b"arrays")
    collection = collect(runs)
    (answers,) = collection.answers.values()
    assert set(answers) == {"best", "last"} and not collection.problems
    assert answers["best"]._replace(which="last") == answers["last"]
    assert answers["last"][1:6] == (2000, "wrong", 12, False, "300000000002")


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ({"best": ("wrong", 12), "id": ("open", None)}, ("wrong", 12)),
        ({"best": ("wrong", 12), "id": ("wrong", 30), "last": ("certified", None)}, ("wrong", 12)),
        ({"best": ("certified", None), "id": ("open", None)}, ("certified", None)),
        ({"best": ("open", None), "id": ("open", None)}, ("open", None)),
    ],
)
def test_the_same_weights_have_one_verdict(
    write: Write, runs: Path, others: dict[str, tuple[str, int | None]], verdict: tuple[str, Any]
) -> None:
    """Trained again, so no rule stands for another by its update; band's weights are others."""
    folder = write()
    for rule, (found, length) in (others | {"band": ("open", None)}).items():
        witness = None if length is None else certificate()["witness"] | {"length": length}
        own = {"weights_sha256": "cd" * 32} if rule == "band" else {}
        searched = {"complete_to": 9 if rule == "id" else 7}
        content = certificate(
            verdict=found, which=rule, witness=witness, searched=searched, step=3, **own
        )
        keep(folder, content | {"trained_again": "same scores"}, f"{rule}.json")
    (answers,) = collect(runs).answers.values()
    assert set(answers) == {*others, "band"}
    assert {(answers[rule].verdict, answers[rule].length) for rule in others} == {verdict}
    assert (answers["band"].verdict, answers["id"].complete_to) == ("open", 9)
    assert answers["best"].complete_to == 7


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not json"),
        ([], "holds no object"),
        (certificate(format="lrbench-counterexample"), "is no certificate"),
        (certificate(verdict="right"), "is no certificate"),
        (certificate(step="2000"), "which checkpoint"),
        (certificate(searched=[]), "how far was searched"),
        (certificate(searched={"complete_to": 1.5}), "no whole number"),
        (certificate(witness=None), "has no witness"),
        (certificate(verdict="open"), "has a witness, and is not wrong"),
        (certificate(witness={"string": "1", "length": -1, "shortest": True}), "no length"),
        (certificate(witness={"string": 1, "length": 1, "shortest": True}), "lacks its string"),
    ],
)
def test_damage_is_named_and_costs_no_run(
    write: Write, runs: Path, content: Any, words: str
) -> None:
    keep(write(), content)
    collection = collect(runs)
    assert len(collection.runs) == 1 and not collection.answers
    ((path, reason),) = collection.problems
    assert path.name == "last.json" and words in reason


def test_a_published_table_says_what_the_runs_said(
    write: Write, runs: Path, tmp_path: Path
) -> None:
    keep(write(), certificate())
    keep(write(seed=1), certificate(verdict="open", witness=None))
    keep(write(seed=2), certificate(verdict="certified", witness=None))
    write(seed=3)
    first = collect(runs)
    table = tmp_path / "table"
    table.mkdir()
    for name, content in archive(first, runs).items():
        (table / name).write_bytes(content)
    second = read_archive(table)
    assert second.answers == first.answers and len(second.answers) == 3
    request = Request()
    assert render(second, "markdown", request=request) == render(first, "markdown", request=request)
    text = render(first, "markdown", request=request)
    assert "1 / 1 / 1" in text and "12; -; \N{INFINITY}; -" in text
    (table / "certificates.csv").write_text("folder,which\n")
    with pytest.raises(UserError, match="other columns than a certificates"):
        read_archive(table)
    stranger = {"elsewhere/s0": {"last": next(iter(first.answers.values()))["last"]}}
    (table / "certificates.csv").write_bytes(answers_csv(stranger))
    with pytest.raises(UserError, match="has a run in elsewhere/s0, which runs"):
        read_archive(table)


def test_without_certificates_nothing_is_added(write: Write, runs: Path) -> None:
    write()
    collection = collect(runs)
    assert set(archive(collection, runs)) == {"runs.csv", "settings.json"}
    assert "certified" not in render(collection, "markdown", request=Request())


def test_csv_gives_back_what_was_written(tmp_path: Path) -> None:
    wrong = Answer("best", 5, "wrong", 12, True, 'a "b", c', 9, "ab", "same scores")
    right = Answer("last", 9, "open", None, False, "", 0, "", "", "100000/2000/5/500")
    claim = {"x/s0": {"best": wrong, "last": right}}
    path = tmp_path / "certificates.csv"
    path.write_bytes(answers_csv(claim))
    assert parsed_answers(path) == claim
    changes = (("12,True", "12,yes"), ("wrong,12", "open,12"), (",9,ab,", ",ab,"), ("/5/", "/x/"))
    for old, new in changes:
        path.write_text(answers_csv(claim).decode().replace(old, new))
        with pytest.raises(ValueError, match=r"row of|invalid literal"):
            parsed_answers(path)


def test_a_table_without_extents_is_read(tmp_path: Path) -> None:
    """Of an earlier version: its last column was `again`."""
    path = tmp_path / "certificates.csv"
    path.write_bytes(
        b"folder,which,step,verdict,length,shortest,string,complete_to,weights,again\n"
        b"x/s0,last,9,open,,False,,4,ab,\n"
    )
    known = Answer("last", 9, "open", None, False, "", 4, "ab", "")
    assert parsed_answers(path) == {"x/s0": {"last": known}}


WHOLE = {"complete_to": 16, "complete_asked": 100_000, "families_asked": 2000}
WHOLE |= {"beam": 5, "longest": 500, "seconds_allowed": None, "out_of_time": []}
TIMED = {"complete_to": 9, "beam": 100, "longest": 1000, "seconds_allowed": 5.0, "out_of_time": []}


@pytest.mark.parametrize(
    ("searched", "extent", "covers"),
    [
        (WHOLE, "100000/2000/5/500", True),
        (WHOLE | {"longest": 499}, "100000/2000/5/499", False),
        (WHOLE | {"out_of_time": ["beam"]}, "", False),
        (WHOLE | {"families_asked": 2000.0}, "", False),
        (TIMED, "100000/20000/100/1000", True),  # of a version that did not write what it asked
        (TIMED | {"out_of_time": ["families"]}, BY_CLOCK, False),
        (TIMED | {"seconds_allowed": None}, "", False),
        ({"complete_to": 9}, "", False),
    ],
)
def test_how_far_was_searched(
    write: Write, runs: Path, searched: dict[str, Any], extent: str, covers: bool
) -> None:
    keep(write(), certificate(verdict="open", witness=None, searched=searched))
    (answers,) = collect(runs).answers.values()
    answer = answers["last"]
    assert (answer.extent, answer.covers((100_000, 2000, 5, 500))) == (extent, covers)
    assert answer._replace(verdict="certified").covers((10**9,) * 4)
    assert answer._replace(verdict="wrong", length=3, shortest=True).covers((10**9,) * 4)


def test_what_certify_writes_can_be_used() -> None:
    assert complaint(certificate()) is None
    assert complaint(certificate(verdict="certified", witness=None)) is None
