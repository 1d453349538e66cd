"""The end of a run over a corpus as a person sees it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from lrbench.report.output.evaluation import evaluation_table
from lrbench.report.output.summary import run_summary
from tests.made_up_results import make_split_result

FOLDER = Path("outputs/listops/bbt_grc/rir2023/aaaaaaaaaaaa/s0")


def summary(result: dict[str, Any], references: Path | None = None) -> str:
    console = Console(file=StringIO(), width=80)
    run_summary(result, FOLDER, console, references)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_golden_end_of_a_run(printed: Path) -> None:
    found = summary(make_split_result({"near_iid": 0.591, "args_10": 0.4}), printed)
    assert (
        found
        == """\
Right on 0.5910 of near_iid (baseline 0.400); on 0.4000 of args_10 (no better
than the baseline, 0.400)
listops · bbt_grc, 431k parameters · rir2023 · seed 0 · cpu, 1 thread
1,000 updates in 2 min 5 s

          strings    best     95 % interval    last           baseline  paper
near_iid   10,000  0.5910  [0.5813, 0.6006]  0.5410  0.400 root_digits   0.59
args_10     2,000  0.4000  [0.3787, 0.4216]  0.3500  0.400 root_digits  0.123
accuracy on whole splits; baseline: the best of those that were measured
95 % interval: of best; checkpoints, by update: best 800, last 1,000
paper: BBT-GRC in rir2023, Table 2, median of 3 runs
best dev      accuracy 0.6000, loss 1.2500 at update 800, 1,000 strings (by loss)
ended         after 1.61 epochs: the dev score no better for more than 4 (patience)
look further  lrbench evaluate outputs/listops/bbt_grc/rir2023/aaaaaaaaaaaa/s0 --splits \
args_15,args_iid,lra_test
"""
    )


def test_one_column_where_best_is_the_last(printed: Path) -> None:
    content = make_split_result(
        {"near_iid": 0.591}, checkpoints={"best": 60, "last": 60}, stopped="budget", last=0.0
    )
    content["config"]["protocol"]["max_steps"] = 60
    text = summary(content, printed)
    assert "best=last" in text
    assert "checkpoints, by update" not in text
    assert "ended         after 1.61 epochs: its budget of 60 updates was used up" in text


def test_all_epochs_are_a_budget_too(printed: Path) -> None:
    content = make_split_result({"near_iid": 0.591}, stopped="budget")
    content.pop("epochs")  # as runs of before had it
    assert "ended         its budget of 100 epochs was used up" in summary(content, printed)


def test_the_budget_that_was_used_up_is_named(printed: Path) -> None:
    """Both may be set; all epochs of a small corpus are fewer updates than were allowed."""
    content = make_split_result({"near_iid": 0.591}, stopped="budget")
    content["config"]["protocol"]["max_steps"] = content["steps"] + 1
    assert "its budget of 100 epochs was used up" in summary(content, printed)


def test_made_pairs_of_logic_have_no_number_of_the_papers(printed: Path) -> None:
    content = make_split_result({"test_8": 0.7}, task="logic")
    assert "0.777" in summary(content, printed)
    content["config"]["task"]["source"] = "made"
    text = summary(content, printed)
    assert "0.777" not in text and "paper:" not in text
    assert "--splits test_12,test_11,test_10" in text


def test_a_model_without_a_part_has_the_papers_number_of_it() -> None:
    """The papers' own files; of a model without two parts no paper has a number."""
    content = make_split_result({"near_iid": 0.99}, model="rir_ebt_grc")
    for lacking, number, name in (
        ({}, "0.9972", "RIR-EBT-GRC in"),
        ({"s4d": False}, "0.9978", "RIR-EBT-GRC (-S4D) in"),
        ({"align": "none"}, "0.9883", "RIR-EBT-GRC (-Beam Align) in"),
        ({"s4d": False, "align": "none"}, "", ""),
    ):
        content["config"]["model"]["encoder"] = lacking
        text = summary(content)
        assert number in text and name in text
        assert ("paper:" in text) is bool(name)


def test_a_run_that_diverged_before_its_first_look(printed: Path) -> None:
    content = make_split_result(
        {}, status="diverged", stopped="diverged", evaluations=[], baselines=[], checkpoints={}
    )
    text = summary(content, printed)
    assert "diverged at update 1,000" in text and "nothing to test" in text
    assert "look further" not in text


def test_an_evaluation_has_a_line_for_each_split() -> None:
    console = Console(file=StringIO(), width=80)
    row = {"length": 900, "n": 2_000, "metric": "accuracy", "which": "best", "kind": "test"}
    rest = {"chance": 0.417, "baseline": "root_digits", "peak_mib": 510.2, "seconds": 16.3}
    evaluation_table([{**row, "split": "lra_test", "value": 0.181, **rest}], console)
    assert isinstance(console.file, StringIO)
    assert (
        console.file.getvalue()
        == """\
          strings  accuracy     95 % interval  baseline  memory MiB  seconds
lra_test    2,000    0.1810  [0.1647, 0.1985]     0.417         510     16.3
baseline: the best of those that were measured: root_digits
"""
    )
