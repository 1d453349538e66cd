"""Printed numbers over a range of lengths: found, put on one scale, judged by their rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lrbench.protocols.base import declared
from lrbench.report.output.cells import PrintedCell
from lrbench.report.paper import reference
from lrbench.report.paper.verdict import Evidence, Verdict, judge
from lrbench.report.tables.summary_table import rule_adds


def number(paper: str, task: str, model: str) -> reference.Reference:
    """Return what a paper prints, by its own names."""
    wanted = (task, model)
    rows = reference.load(reference.reference_dir())
    return next(
        reference._reference(row)
        for row in rows
        if row["paper"].startswith(paper) and (row["task"], row["model"]) == wanted
    )


@pytest.mark.parametrize(
    ("paper", "task", "model", "share", "length", "rule"),
    [
        ("Deletang2023", "Parity check", "LSTM", 1.0, 500, "last"),
        ("Deletang2023", "ModArith (simple)", "Transformer", 0.242, 500, "last"),
        ("Grazzi2025", "ModArith w/o brackets", "sLSTM", 0.8296, 256, "last"),
        ("Grazzi2025", "Parity", "Transformer", 0.511, 256, "last"),
        ("Walker2025", "ModArith w/o brackets", "LSTM", 0.999, 256, "best"),
        ("Terzic2025", "Cycle Nav", "LSTM", 1.0, 256, "best"),
    ],
)
def test_they_are_shares_at_the_longest_length(
    paper: str, task: str, model: str, share: float, length: int, rule: str
) -> None:
    found = number(paper, task, model)
    assert (float(found.text), found.value) == (share, share)
    assert (found.length, found.rule) == (length, rule)


def test_a_short_form_has_the_papers_number_beside_it() -> None:
    for protocol in ("deletang2022", "deletang2022_short"):
        found = reference.lookup("nnch_parity_check", None, "lstm", protocol)
        assert found is not None and found.text == "1.000"


def test_the_best_run_is_held_against_the_best() -> None:
    theirs = number("Grazzi2025", "ModArith w/o brackets", "sLSTM")
    ours = Evidence([0.5, 0.83, 0.6], best_run=True)
    assert judge(ours, theirs) == Verdict.REPRODUCED
    assert judge(replace(ours, best_run=False), theirs) == Verdict.INCONCLUSIVE
    assert judge(ours, theirs, comparable=False) == Verdict.NOT_COMPARABLE


def test_what_a_rule_adds_to_an_unsteady_model() -> None:
    """The even pairs of an NNCH thread: 67.7 with s.d. 15.2 over ten seeds has its best at 91."""
    last = [0.677 - 0.152, 0.677, 0.677 + 0.152]

    def added(cells: tuple[PrintedCell, ...]) -> float:
        [cell] = cells
        return float(cell.values[0])

    assert added(rule_adds(declared("grazzi2025"), [], last)) == pytest.approx(
        0.85 * 0.152, abs=1e-3
    )
    assert added(rule_adds(declared("deletang2022"), [], last)) == pytest.approx(0.31, abs=1e-2)
    assert added(rule_adds(declared("walker2025"), [0.9, 0.8], [0.7, 0.8])) == pytest.approx(0.1)
    assert rule_adds(declared("fan2024"), [0.9], [0.7]) == ()
