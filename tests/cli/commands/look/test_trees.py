"""`lrbench show --tree`: the tree of a finished run, of one under way, and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.runs.evaluate.parses import bracketed, spans
from tests import made_up_corpora

Run = Callable[..., Any]
TINY = ["model.width=8", "protocol.max_steps=2", "device=cpu", "output_dir=runs"]
TINY += ["protocol.batch_size=8", "protocol.test_splits=[]"]
STRING = "[MAX 5 [SM 3 9] 2]"


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))
    monkeypatch.chdir(tmp_path)


def train(lrbench: Run, task: str, model: str) -> str:
    ended = lrbench("train", f"task={task}", f"model={model}", *TINY)
    assert ended.code == 0, ended.err
    [folder] = Path("runs").glob(f"{task}/{model}/*/*/s0")
    return str(folder)


def test_the_balanced_tree_of_listops(lrbench: Run) -> None:
    folder = train(lrbench, "listops", "bbt_grc")

    reported = lrbench("show", "--tree", folder, STRING)

    assert reported.code == 0, reported.err
    assert "string  [MAX 5 [SM 3 9 ] 2 ]" in reported.out
    assert "answer  5, the model says " in reported.out
    assert "parse   ((([MAX 5) ([SM 3)) ((9 ]) (2 ])))" in reported.out
    assert reported.out.count("├── ") == reported.out.count("└── ") == 7  # a pair of children each

    Path(folder, "result.json").unlink()  # as while it trains
    assert lrbench("show", "--tree", folder, STRING).out == reported.out
    assert lrbench("show", "--tree", folder, "7").out.splitlines()[-1] == "7"


def test_there_is_no_automaton_to_compare_with(lrbench: Run) -> None:
    folder = train(lrbench, "listops", "bbt_grc")
    for command in ("certify", "diagnose"):
        refused = lrbench(command, folder)
        assert (refused.code, refused.out) == (2, "")
        assert "task listops is no finite automaton" in refused.err
        assert refused.err.endswith(f"`lrbench evaluate {folder}` scores it on its splits\n")


@pytest.mark.parametrize(
    "model",
    [
        *("bt_grc", "bt_grc_os", "ebt_grc", "crvnn", "ordered_memory"),
        *("rir_ebt_grc", "rir_grc", "rir_crvnn", "rir_om"),
    ],
)
def test_trees_that_models_choose_have_every_symbol_once(lrbench: Run, model: str) -> None:
    reported = lrbench("show", "--tree", train(lrbench, "listops", model), STRING)

    assert reported.code == 0, reported.err
    [parse] = [line for line in reported.out.splitlines() if line.startswith("parse")]
    symbols = parse.removeprefix("parse").replace("(", "").replace(")", "").split()
    assert symbols == ["[MAX", "5", "[SM", "3", "9", "]", "2", "]"]
    assert parse.count("(") == parse.count(")") == 7  # merges of eight symbols


def test_a_formula_has_no_answer_by_itself(lrbench: Run) -> None:
    folder = train(lrbench, "logic", "bbt_grc")

    reported = lrbench("show", "--tree", folder, "(a (or b))", "(not a)")

    assert reported.code == 0, reported.err
    assert "answer" not in reported.out
    assert "string  ( a ( or b ) )" in reported.out and "string  ( not a )" in reported.out


def test_what_is_no_string_is_refused(lrbench: Run) -> None:
    folder = train(lrbench, "listops", "bbt_grc")
    for text, why in (
        ("[MAX 5", "cut short"),
        ("[MAX 5 x ]", "symbol 3 is 'x'; listops has"),
        ("", "an empty string"),
    ):
        reported = lrbench("show", "--tree", folder, text)
        assert reported.code == 1 and why in reported.err


def test_runs_without_a_tree_are_refused(lrbench: Run) -> None:
    reported = lrbench("show", "--tree", train(lrbench, "listops", "rnn_grc"), STRING)
    assert reported.code == 1 and "rnn_grc has no trees: it joins no neighbours" in reported.err
    assert "encoders with trees: bbt_grc, bt_grc, " in reported.err
    reported = lrbench("show", "--tree", "nowhere", STRING)
    assert reported.code == 1 and "nowhere is not a run with a 'best' checkpoint" in reported.err
    assert "which string?" in lrbench("show", "--tree", "nowhere").err


def test_deep_trees_have_lines_too() -> None:
    tree: Any = 0
    for position in range(1, 5000):
        tree = (tree, position)
    assert bracketed(tree, ["x"] * 5000) == "(" * 4999 + "x" + " x)" * 4999


def test_spans_of_a_tree() -> None:
    assert spans(((0, 1), 2)) == [
        (0, range(0, 3)),
        (1, range(0, 2)),
        (2, range(0, 1)),
        (2, range(1, 2)),
        (1, range(2, 3)),
    ]


def test_a_split_string_by_string_and_what_trees_are_worth(lrbench: Run) -> None:
    folder = train(lrbench, "listops", "bbt_grc")

    shown = lrbench("show", "--tree", folder, "split=near_iid", "count=20", "first=3")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    [nodes] = [line for line in lines if line.startswith("every bracket is a node in ")]
    told = [line.split() for line in lines if line.startswith("nodes   ")]
    whole = sum(line[1] == line[3] for line in told)
    assert nodes.startswith(f"every bracket is a node in {whole} of {len(told)} strings that nest")
    assert sum(line.startswith("parse   ") for line in lines) == 20
    answers = [line for line in lines if line.startswith("answer  ")]
    right = sum(line.split()[1].strip(",") == line.split()[-1] for line in answers)
    assert lines[-1] == f"{right} of 20 answers are right"
    assert "├── " not in shown.out

    counted = lrbench("evaluate", folder, "--trees", "15", "--splits", "near_iid,dev")
    assert counted.code == 0, counted.err
    assert "the checkpoint of rule best" in counted.out and "trees, unmarked" in counted.out
    lrbench("evaluate", folder, "--trees", "12", "--splits", "near_iid")  # the newer one counts
    report = lrbench("report", "--runs", "runs", "--format", "csv")
    rows = list(csv.DictReader(report.out.splitlines()))
    of_trees = [(row["split"], row["n"]) for row in rows if row["kind"] == "trees"]
    assert sorted(set(of_trees)) == [("dev", "10"), ("near_iid", "12")]
    assert len(of_trees) == 16  # four metrics of the one checkpoint, which two rules kept
    shown = lrbench("report", "--runs", "runs", "--table", "rir2023_table2")
    assert shown.out.count("Trees beside brackets") == 1
    told = shown.out.partition("Trees beside brackets")[2].splitlines()
    splits = [line.split()[1] for line in told if "| bbt_grc " in line]
    assert splits[:2] == ["near_iid", "dev"]  # the second is no column of the table


def test_what_cannot_be_shown(lrbench: Run) -> None:
    folder = train(lrbench, "listops", "bbt_grc")
    for words, said in (
        (("show", "--tree", folder, "split=nowhere"), "near_iid"),
        (("show", "--tree", folder, "split=near_iid", "first=900"), "near_iid of listops has 24 r"),
        (("show", "--tree", folder, "split=near_iid", "count=0"), "count must be at least 1"),
        (("evaluate", folder, "--trees", "0"), "--trees must be at least 1, not 0"),
        (("evaluate", folder, "--trees", "3", "--lengths", "50"), "--lengths does not go with"),
        (("evaluate", "--table", "length_curves", "--trees", "0"), "--trees goes with a run over"),
    ):
        ended = lrbench(*words)
        assert ended.code in (1, 2) and said in ended.err, ended.err
        assert ended.err.startswith("lrbench: ")
