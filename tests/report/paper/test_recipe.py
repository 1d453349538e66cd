"""No paper's number stands beside a run of another task than the paper's."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from lrbench.checks import written
from lrbench.locations import GIVEN
from lrbench.registry import TASKS
from lrbench.report.paper.recipe import faithful, other_recipe, other_task
from lrbench.report.paper.reference import names, printed


@pytest.mark.parametrize(
    ("task", "protocol", "settings", "reason"),
    [
        ("mackey_glass", "fan2024", {"tau": 30}, "task.tau is 30, the paper's is 17"),
        ("mackey_glass", "fan2024", {"series": 8}, "task.series is 8, the paper's is 128"),
        ("mackey_glass", "fan2024", {"tau": 17, "series": 128, "horizon": 15}, ""),
        ("nnch_parity_check", "deletang2022", {"query": False}, "task.query is false, the paper's"),
        ("nnch_parity_check", "deletang2022", {"query": True}, ""),
        ("sum", "fan2024", {"modulus": 5}, ""),
        ("group", "siems2025", {"group": "S5"}, ""),  # as in the paper
    ],
)
def test_a_setting_that_a_paper_does_not_name_has_its_default(
    task: str, protocol: str, settings: dict[str, Any], reason: str
) -> None:
    run: dict[str, Any] = {"task": task, "model": "lstm", "protocol": protocol}
    run["config"] = {"task": {"name": task, **settings}}
    flat = {f"task.{key}": value for key, value in settings.items()}
    assert faithful(task, flat) == (not reason) == (other_task(task, flat) == "")
    assert other_recipe(run).startswith(reason)


def test_the_file_has_what_our_tasks_have_and_the_papers_do_not_name() -> None:
    made = set()
    for row in names("tasks"):
        if not printed(row["lrbench_task"], None, row["protocol"]):
            continue
        told = {one["setting"] for one in names("settings") if one["paper"] == row["paper"]}
        for one in fields(TASKS.get(row["lrbench_task"]).config):
            if (key := f"task.{one.name}") not in {"task.name", *told}:
                made.add((row["lrbench_task"], key, written(one.default)))
    for task in GIVEN:  # of corpora: the others have no setting that is not told elsewhere
        for one in fields(TASKS.get(task).config):
            if one.name != "name":
                made.add((task, f"task.{one.name}", written(one.default)))
    kept = [tuple(row.values()) for row in names("defaults")]
    assert set(kept) == made and len(kept) == len(made)
