"""Verdicts and shortest failures of a cell's runs, as two cells and what they mean."""

from __future__ import annotations

from lrbench.report.runs.columns import Answer
from lrbench.report.tables.horizons import certified_cells, certified_legend


def answer(verdict: str, length: int | None = None, **changes: object) -> Answer:
    reported = Answer("last", 1, verdict, length, False, "", 9, "", "")
    return reported._replace(**changes)  # type: ignore[arg-type]


def test_a_run_each_and_what_the_marks_mean() -> None:
    found = [
        answer("wrong", 1200),
        None,
        answer("wrong", 3, shortest=True, again="same scores"),
        answer("open", again="other scores"),
        answer("certified"),
    ]
    counts, failures = certified_cells(found)
    assert counts.text == "1 / 2 / 1" and counts.values == (1, 2, 1)
    assert failures.text == "1,200; -; =3‡; -; ∞" and failures.values == (1200, 3)
    legend = " ".join(certified_legend(found))
    for words in ("= that no shorter one is", "∞ certified", "‡ of the same run", "§ of the same"):
        assert words in legend
    plain = " ".join(certified_legend([answer("wrong", 12)]))
    assert not any(mark in plain for mark in ("= that", "∞", "‡", "§"))


def test_runs_that_were_not_searched_say_nothing() -> None:
    assert [cell.text for cell in certified_cells([None, None])] == ["-", "-"]
    assert certified_legend([None]) == []
