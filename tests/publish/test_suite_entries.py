"""Published entries of a suite keep its rules, whoever sent them: what CI asks of a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.report.runs.collect import collect
from lrbench.report.suite.entries import MAIN, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.suite.rules import violations
from lrbench.tables import SUITE, load_table, table_names

RESULTS = Path(__file__).resolve().parents[2] / "results"
SUITES = [
    RESULTS / name
    for name in table_names()
    if (RESULTS / name / "records").is_dir() and load_table(name).kind == SUITE
]


@pytest.mark.parametrize("folder", SUITES, ids=lambda folder: folder.name)
def test_complete_entries_break_no_rule_and_no_run_is_on_other_strings(folder: Path) -> None:
    """From the records, not from the numbers that were made of them."""
    spec, lock = load_table(folder.name), read_lock(folder.name)
    suite = suite_of(collect(folder / "records"), spec, lock, spec.rule)
    assert suite.refused == {}
    complete = [e.label for e in suite.entries if e.division == MAIN and e.complete]
    assert complete, "a published suite has an entry"
    broken = {label: violations(suite, lock, label, by_clock=True) for label in complete}
    assert not any(broken.values()), broken
